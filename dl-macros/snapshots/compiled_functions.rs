// fn f(x: &NdLayer, layer: impl NdExpression, n: usize) -> (NdLayer, NdLayer) {
//     if n > 1 {
//         return (x * layer, x.clone());
//     }
//     (x.clone(), x * x)
// }
#[track_caller]
fn f(x: &NdLayer, layer: impl NdExpression, n: usize) -> (NdLayer, NdLayer) {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || -> (NdLayer, NdLayer) {
            let layer = ::dl::bang::layer(&layer);
            static FUNCTION: ::dl::bang::CompiledFunction = ::dl::bang::CompiledFunction::new(
                "f",
            );
            let arguments = FUNCTION
                .arguments(|arguments: &mut ::dl::bang::Arguments| {
                    ::dl::bang::argument(x).add_to(arguments);
                    ::dl::bang::argument(&layer).add_to(arguments);
                    ::dl::bang::argument(&n).add_to(arguments);
                });
            FUNCTION
                .call(
                    arguments,
                    move || -> (NdLayer, NdLayer) {
                        if n > 1 {
                            return (
                                ::dl::bang::operand(&x).duplicate() * layer,
                                x.clone(),
                            );
                        }
                        (x.clone(), ::dl::bang::operand(&x).duplicate() * x)
                    },
                )
        })
}

// impl Net {
//     fn new() -> Net {
//         Net
//     }
//     fn of(&self, x: &NdLayer) -> NdLayer {
//         x * self.weight
//     }
// }
impl Net {
    fn new() -> Net {
        Net
    }
    #[track_caller]
    fn of(&self, x: &NdLayer) -> NdLayer {
        ::dl::bang::method::<Self>("of")
            .run(move || -> NdLayer {
                static FUNCTION: ::dl::bang::CompiledFunction = ::dl::bang::CompiledFunction::new(
                    "of",
                );
                let arguments = FUNCTION
                    .arguments(|arguments: &mut ::dl::bang::Arguments| {
                        ::dl::bang::argument(self).add_to(arguments);
                        ::dl::bang::argument(x).add_to(arguments);
                    });
                FUNCTION
                    .call(
                        arguments,
                        move || -> NdLayer {
                            x * ::dl::bang::operand(&self.weight).duplicate()
                        },
                    )
            })
    }
}

// fn f(x: &NdLayer, w: &NdWeight) -> NdLayer {
//     x.matmul(w)
// }
#[track_caller]
fn f(x: &NdLayer, w: &NdWeight) -> NdLayer {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || -> NdLayer {
            static FUNCTION: ::dl::bang::CompiledFunction = ::dl::bang::CompiledFunction::grouped(
                "f",
            );
            let arguments = FUNCTION
                .arguments(|arguments: &mut ::dl::bang::Arguments| {
                    ::dl::bang::argument(x).add_to(arguments);
                    ::dl::bang::argument(w).add_to(arguments);
                });
            FUNCTION.call(arguments, move || -> NdLayer { x.matmul(w) })
        })
}

// fn f(x: &NdLayer, (a, b): (f64, f64)) -> NdLayer {
//     x * !x
// }
::core::compile_error! {
    "a compiled function does not decide by values: its body has a `!` or a `?`\nhelp: decide in a function without `compiled`, which calls compiled ones"
}
#[allow(unused_variables, unused_mut)]
fn f(x: &NdLayer, (a, b): (f64, f64)) -> NdLayer {
    ::core::unreachable!()
}

