// fn f(x: Do<bool>, y: Do<bool>, z: Layer<f32>) -> Layer<f32> {
//     if !x && !y { z } else { z * 2.0 }
// }
#[track_caller]
fn f(x: Do<bool>, y: Do<bool>, z: Layer<f32>) -> Layer<f32> {
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
                    let x: Do<bool> = kept.0.take();
                    let y: Do<bool> = kept.1.take();
                    let z: Layer<f32> = kept.2.take();
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new("!x && !y", &["z", "z * 2.0"]),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        if ({
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        }
                            && {
                                let start = ::dl::bang::place(&y).start();
                                let value = start.await?;
                                value
                            }) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            z
                        } else {
                            z * 2.0
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

