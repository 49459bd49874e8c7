// fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> {
//     if let Some(a) = !x && a > !y { y * a } else { y }
// }
#[track_caller]
fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> {
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
                    let x: Do<Option<f32>> = kept.0.take();
                    let y: Layer<f32> = kept.1.take();
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "let Some(a) = !x && a > !y",
                                &["y * a", "y"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        if let Some(a) = {
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        }
                            && a
                                > {
                                    let start = ::dl::bang::place(&y).start();
                                    let value = start.await?;
                                    value
                                }
                        {
                            ::dl::bang::took(&branches[0], 0);
                            y * a
                        } else {
                            ::dl::bang::took(&branches[0], 1);
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

