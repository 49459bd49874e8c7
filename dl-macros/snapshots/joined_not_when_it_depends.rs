// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     let a = !x;
//     let b = !(y * a);
//     x * b
// }
#[track_caller]
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(x),
                ::dl::bang::keep_value(y),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: Layer<f32> = kept.0.take();
                    let y: Layer<f32> = kept.1.take();
                    let tail: Layer<f32> = {
                        let a = {
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        };
                        let b = {
                            let start = ::dl::bang::value(
                                    ::dl::bang::operand(&y).duplicate()
                                        * ::dl::bang::operand(&a).duplicate(),
                                )
                                .start();
                            let value = start.await?;
                            value
                        };
                        x * b
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

