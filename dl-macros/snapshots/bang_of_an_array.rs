// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     let [a, b] = ![x, y];
//     let [c, d] = ![x, x + y];
//     x * a * b * c * d
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
                        let extracted_0_1;
                        let [a, b] = {
                            let start_0 = ::dl::bang::value([&x, &y]).start();
                            let start_1 = ::dl::bang::value([
                                    ::dl::bang::operand(&x).duplicate(),
                                    ::dl::bang::operand(&x).duplicate()
                                        + ::dl::bang::operand(&y).duplicate(),
                                ])
                                .start();
                            let (first, result_1) = ::dl::bang::join((start_0, start_1))
                                .await?;
                            extracted_0_1 = result_1;
                            first
                        };
                        let [c, d] = extracted_0_1;
                        x * a * b * c * d
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

