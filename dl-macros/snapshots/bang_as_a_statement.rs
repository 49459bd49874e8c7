// fn f(x: Layer<f32>) -> Layer<f32> {
//     !x;
//     x
// }
#[track_caller]
fn f(x: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((::dl::bang::keep_value(x),));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: Layer<f32> = kept.0.take();
                    let tail: Layer<f32> = {
                        {
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        };
                        x
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

