// fn f(x: Layer<f32>) -> Layer<f32> {
//     let y = 'found: loop {
//         for i in 0..3 {
//             if !x > 1.0 {
//                 break 'found 2.0 * x * i as f32;
//             }
//             continue;
//         }
//     };
//     y + x
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
                            ::dl::bang::Branch::new(
                                "!x > 1.0",
                                &["break 'found 2.0 * x * i as f32", "nothing"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        let y = 'found: loop {
                            for i in 0..3 {
                                if ({
                                    let start = ::dl::bang::place(&x).start();
                                    let value = start.await?;
                                    value
                                } > 1.0) && ::dl::bang::yes(&branches[0])
                                    || ::dl::bang::no(&branches[0])
                                {
                                    break 'found 2.0 * ::dl::bang::operand(&x).duplicate()
                                        * i as f32;
                                }
                                continue;
                            }
                        };
                        y + x
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

