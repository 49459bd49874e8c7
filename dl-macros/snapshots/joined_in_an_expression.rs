// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     if !x > !y { x } else { y }
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
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new("!x > !y", &["x", "y"]),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        let extracted_0_1;
                        if ({
                            let start_0 = ::dl::bang::place(&x).start();
                            let start_1 = ::dl::bang::place(&y).start();
                            let (first, result_1) = ::dl::bang::join((start_0, start_1))
                                .await?;
                            extracted_0_1 = result_1;
                            first
                        } > extracted_0_1) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            x
                        } else {
                            y
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

