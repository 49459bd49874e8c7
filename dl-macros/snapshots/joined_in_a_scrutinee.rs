// fn f(x: Layer<bool>, y: Layer<bool>, z: Layer<f32>) -> Layer<f32> {
//     match (!x, !y) {
//         (true, false) => z,
//         _ => -z,
//     }
// }
#[track_caller]
fn f(x: Layer<bool>, y: Layer<bool>, z: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(x),
                ::dl::bang::keep_value(y),
                ::dl::bang::keep_value(z),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: Layer<bool> = kept.0.take();
                    let y: Layer<bool> = kept.1.take();
                    let z: Layer<f32> = kept.2.take();
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "(!x, !y)",
                                &["(true, false) => z", "_ => -z"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        let extracted_0_1;
                        match (
                            {
                                let start_0 = ::dl::bang::place(&x).start();
                                let start_1 = ::dl::bang::place(&y).start();
                                let (first, result_1) = ::dl::bang::join((start_0, start_1))
                                    .await?;
                                extracted_0_1 = result_1;
                                first
                            },
                            extracted_0_1,
                        ) {
                            (true, false) => {
                                ::dl::bang::took(&branches[0], 0);
                                z
                            }
                            _ => {
                                ::dl::bang::took(&branches[0], 1);
                                -z
                            }
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

