// struct State {
//     h: NdLayer,
//     c: NdLayer,
// }
struct State {
    h: NdLayer,
    c: NdLayer,
}
impl ::dl::bang::Lazy for State {
    #[track_caller]
    fn lazy<Body, Run>(body: Body) -> Self
    where
        Body: ::core::ops::Fn() -> Run + ::core::marker::Send + ::core::marker::Sync
            + 'static,
        Run: ::core::future::Future<
                Output = ::core::result::Result<Self, ::dl::bang::Error>,
            > + ::core::marker::Send + 'static,
    {
        let decided = ::dl::bang::decide(body);
        State {
            h: ::dl::bang::part::<
                _,
                NdLayer,
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.h)),
            c: ::dl::bang::part::<
                _,
                NdLayer,
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.c)),
        }
    }
}
impl ::dl::bang::CompiledArgument for State {
    fn add_to(&self, arguments: &mut ::dl::bang::Arguments) {
        ::dl::bang::argument(&self.h).add_field_to(arguments);
        ::dl::bang::argument(&self.c).add_field_to(arguments);
    }
}
impl ::dl::bang::CompiledResult for State {
    fn layers(&self, list: &mut ::dl::bang::ResultLayers) {
        ::dl::bang::result_of::<NdLayer>().layers(&self.h, list);
        ::dl::bang::result_of::<NdLayer>().layers(&self.c, list);
    }
    fn with_layers(list: &mut ::dl::bang::ResultLayers) -> Self {
        State {
            h: ::dl::bang::result_of::<NdLayer>().with_layers(list),
            c: ::dl::bang::result_of::<NdLayer>().with_layers(list),
        }
    }
}

// struct Pair<T: Data>(
//     Layer<T>,
//     [Layer<T>; 2],
// )
// where
//     T: Copy;
struct Pair<T: Data>(
    Layer<T>,
    [Layer<T>; 2],
)
where
    T: Copy;
impl<T: Data> ::dl::bang::Lazy for Pair<T>
where
    T: Copy,
    Self: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static,
{
    #[track_caller]
    fn lazy<Body, Run>(body: Body) -> Self
    where
        Body: ::core::ops::Fn() -> Run + ::core::marker::Send + ::core::marker::Sync
            + 'static,
        Run: ::core::future::Future<
                Output = ::core::result::Result<Self, ::dl::bang::Error>,
            > + ::core::marker::Send + 'static,
    {
        let decided = ::dl::bang::decide(body);
        Pair {
            0: ::dl::bang::part::<
                _,
                Layer<T>,
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.0)),
            1: ::dl::bang::part::<
                _,
                [Layer<T>; 2],
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.1)),
        }
    }
}
impl<T: Data> ::dl::bang::CompiledArgument for Pair<T>
where
    T: Copy,
{
    fn add_to(&self, arguments: &mut ::dl::bang::Arguments) {
        ::dl::bang::argument(&self.0).add_field_to(arguments);
        ::dl::bang::argument(&self.1).add_field_to(arguments);
    }
}
impl<T: Data> ::dl::bang::CompiledResult for Pair<T>
where
    T: Copy,
{
    fn layers(&self, list: &mut ::dl::bang::ResultLayers) {
        ::dl::bang::result_of::<Layer<T>>().layers(&self.0, list);
        ::dl::bang::result_of::<[Layer<T>; 2]>().layers(&self.1, list);
    }
    fn with_layers(list: &mut ::dl::bang::ResultLayers) -> Self {
        Pair {
            0: ::dl::bang::result_of::<Layer<T>>().with_layers(list),
            1: ::dl::bang::result_of::<[Layer<T>; 2]>().with_layers(list),
        }
    }
}

