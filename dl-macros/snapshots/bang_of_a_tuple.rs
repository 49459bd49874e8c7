// fn f(x: Layer<f32>, w: &Weight<f32>) -> Layer<f32> {
//     let (a, b, c) = !(x + w, 2.0, w);
//     a + b + c + w
// }
#[track_caller]
fn f(x: Layer<f32>, w: &Weight<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(x),
                ::dl::bang::keep_reference::<Weight<f32>, _>(w),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: Layer<f32> = kept.0.take();
                    let w: &Weight<f32> = ::dl::bang::lend::<_, Weight<f32>>(&kept.1);
                    let tail: Layer<f32> = {
                        let (a, b, c) = {
                            let start = ::dl::bang::value((
                                    ::dl::bang::operand(&x).duplicate()
                                        + ::dl::bang::operand(&w).duplicate(),
                                    ::dl::bang::Literal(2.0),
                                    &w,
                                ))
                                .start();
                            let value = start.await?;
                            value
                        };
                        a + b + c + w
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

