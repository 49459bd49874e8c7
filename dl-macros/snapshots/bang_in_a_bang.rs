// fn f(x: Layer<f32>, net: Net) -> Layer<f32> {
//     let v = !net.of(!x);
//     x * v
// }
#[track_caller]
fn f(x: Layer<f32>, net: Net) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(x),
                ::dl::bang::keep_value(net),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: Layer<f32> = kept.0.take();
                    let net: Net = kept.1.take();
                    let tail: Layer<f32> = {
                        let v = {
                            let start = ::dl::bang::value(
                                    net
                                        .of({
                                            let start = ::dl::bang::place(&x).start();
                                            let value = start.await?;
                                            value
                                        }),
                                )
                                .start();
                            let value = start.await?;
                            value
                        };
                        x * v
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

