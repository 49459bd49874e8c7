// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     let a = !x;
//     let k = g();
//     let b = !y;
//     x * a * b * k
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
                        let k = g();
                        let b = {
                            let start = ::dl::bang::place(&y).start();
                            let value = start.await?;
                            value
                        };
                        x * a * b * k
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

