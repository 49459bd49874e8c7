// fn f(mut v: Vec<f32>, x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     v[!x as usize] += !y;
//     x * v[0]
// }
#[track_caller]
fn f(v: Vec<f32>, x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(v),
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
                    let mut v: Vec<f32> = kept.0.take();
                    let x: Layer<f32> = kept.1.take();
                    let y: Layer<f32> = kept.2.take();
                    let tail: Layer<f32> = {
                        v[{
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        } as usize]
                            += {
                                let start = ::dl::bang::place(&y).start();
                                let value = start.await?;
                                value
                            };
                        x * ::dl::bang::operand(&v[0]).duplicate()
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

