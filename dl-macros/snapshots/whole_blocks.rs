// impl Module for Net {
//     const fn size() -> usize {
//         !0
//     }
//     fn of(&self, x: &Layer<f32>) -> Layer<f32> {
//         x * !x
//     }
//     #[differentiable(lazy)]
//     fn own(&self) -> Score {
//         !x
//     }
// }
impl Module for Net {
    const fn size() -> usize {
        !0
    }
    #[track_caller]
    fn of(&self, x: &Layer<f32>) -> Layer<f32> {
        ::dl::bang::method::<Self>("of")
            .run(move || {
                let kept = ::dl::bang::keep((
                    ::dl::bang::keep_reference(self),
                    ::dl::bang::keep_reference::<Layer<f32>, _>(x),
                ));
                ::dl::bang::lazy::<
                    Layer<f32>,
                    _,
                    _,
                >(move || {
                    let kept = ::core::clone::Clone::clone(&kept);
                    async move {
                        let this: &Self = ::dl::bang::lend::<_, Self>(&kept.0);
                        let x: &Layer<f32> = ::dl::bang::lend::<_, Layer<f32>>(&kept.1);
                        let tail: Layer<f32> = {
                            ::dl::bang::operand(&x).duplicate()
                                * {
                                    let start = ::dl::bang::place(&x).start();
                                    let value = start.await?;
                                    value
                                }
                        };
                        #[allow(unreachable_code)]
                        return ::core::result::Result::Ok::<
                            Layer<f32>,
                            ::dl::bang::Error,
                        >(tail);
                    }
                })
            })
    }
    #[differentiable(lazy)]
    fn own(&self) -> Score {
        !x
    }
}

// mod nets {
//     struct Net;
//     fn f(x: Layer<f32>) -> Layer<f32> {
//         x * !x
//     }
//     fn g(n: usize) -> usize {
//         !n
//     }
//     trait Module {
//         fn size(&self) -> usize;
//         fn of(&self, x: Layer<f32>) -> Layer<f32> {
//             x * x
//         }
//     }
// }
mod nets {
    struct Net;
    #[track_caller]
    fn f(x: Layer<f32>) -> Layer<f32> {
        deep::bang::function(::core::module_path!(), "f")
            .run(move || {
                let kept = deep::bang::keep((deep::bang::keep_value(x),));
                deep::bang::lazy::<
                    Layer<f32>,
                    _,
                    _,
                >(move || {
                    let kept = ::core::clone::Clone::clone(&kept);
                    async move {
                        let x: Layer<f32> = kept.0.take();
                        let tail: Layer<f32> = {
                            deep::bang::operand(&x).duplicate()
                                * {
                                    let start = deep::bang::place(&x).start();
                                    let value = start.await?;
                                    value
                                }
                        };
                        #[allow(unreachable_code)]
                        return ::core::result::Result::Ok::<
                            Layer<f32>,
                            deep::bang::Error,
                        >(tail);
                    }
                })
            })
    }
    fn g(n: usize) -> usize {
        !n
    }
    trait Module {
        fn size(&self) -> usize;
        #[track_caller]
        fn of(&self, x: Layer<f32>) -> Layer<f32> {
            deep::bang::method::<Self>("of")
                .run(move || -> Layer<f32> { deep::bang::operand(&x).duplicate() * x })
        }
    }
}

