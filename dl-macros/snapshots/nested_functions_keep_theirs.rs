// fn f(x: Layer<f32>) -> Layer<f32> {
//     let no = |b: bool| !b;
//     fn not(b: bool) -> bool {
//         !b
//     }
//     if no(!x > 0.0) { x } else { x * 2.0 }
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
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new("no(!x > 0.0)", &["x", "x * 2.0"]),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        let no = |b: bool| !b;
                        fn not(b: bool) -> bool {
                            !b
                        }
                        if (no(
                            {
                                let start = ::dl::bang::place(&x).start();
                                let value = start.await?;
                                value
                            } > 0.0,
                        )) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            x
                        } else {
                            x * 2.0
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

