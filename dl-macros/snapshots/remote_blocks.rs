// impl Block for Expert {
//     fn of(&self, x: &NdLayer) -> NdLayer {
//         self.0.of(x)
//     }
// }
impl Block for Expert {
    fn of(&self, x: &NdLayer) -> NdLayer {
        self.0.of(x)
    }
}
const _: () = {
    #[allow(dead_code, clippy::extra_unused_type_parameters, reason = "it checks types")]
    fn arguments_can_be_sent() {
        fn argument<T: ::dl::dist::RemoteArgument>() {}
        argument::<&NdLayer>();
    }
};
impl ::dl::dist::RemoteBlock for Expert {
    const NAME: &'static str = ::core::concat!(
        ::core::module_path!(), "::", "Expert as Block"
    );
    fn of_caller(&self, x: &NdLayer) -> NdLayer {
        <Self as Block>::of(self, x)
    }
}
::dl::dist::submit! {
    < Expert as ::dl::dist::RemoteBlock > ::FUNCTION
}

// impl nn::Block<Ix2, f64> for nets::Expert {
//     fn of(&self, x: &NdLayer<Ix2, f64>) -> NdLayer<Ix2, f64> {
//         self.0.of(x)
//     }
// }
impl nn::Block<Ix2, f64> for nets::Expert {
    fn of(&self, x: &NdLayer<Ix2, f64>) -> NdLayer<Ix2, f64> {
        self.0.of(x)
    }
}
const _: () = {
    #[allow(dead_code, clippy::extra_unused_type_parameters, reason = "it checks types")]
    fn arguments_can_be_sent() {
        fn argument<T: my::dl::dist::RemoteArgument>() {}
        argument::<&NdLayer<Ix2, f64>>();
    }
};
impl my::dl::dist::RemoteBlock<Ix2, f64> for nets::Expert {
    const NAME: &'static str = ::core::concat!(
        ::core::module_path!(), "::", "nets::Expert as Block<Ix2, f64>"
    );
    fn of_caller(&self, x: &NdLayer<Ix2, f64>) -> NdLayer<Ix2, f64> {
        <Self as nn::Block<Ix2, f64>>::of(self, x)
    }
}
my::dl::dist::submit! {
    < nets::Expert as my::dl::dist::RemoteBlock < Ix2, f64 > > ::FUNCTION
}

// impl<A: Element> Block<Ix2, A> for Expert<A> {
//     fn of(&self, x: &NdLayer<Ix2, A>) -> NdLayer<Ix2, A> {
//         self.0.of(x)
//     }
// }
impl<A: Element> Block<Ix2, A> for Expert<A> {
    fn of(&self, x: &NdLayer<Ix2, A>) -> NdLayer<Ix2, A> {
        self.0.of(x)
    }
}
::core::compile_error! {
    "a block with parameters cannot be registered: other ranks find it by its name, so all types must be known\nhelp: write an `impl` for each type, or a struct that contains it"
}

// impl Expert {
//     fn of(&self, x: &NdLayer) -> NdLayer {
//         self.0.of(x)
//     }
// }
impl Expert {
    fn of(&self, x: &NdLayer) -> NdLayer {
        self.0.of(x)
    }
}
::core::compile_error! {
    "`#[remote]` is for `impl Block for …`: other ranks call a module as a block"
}

