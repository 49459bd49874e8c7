// fn f(x: &Layer<f32>) -> Layer<f32> {
//     if !x < 0.0 {
//         return -x;
//     }
//     x * 2.0
// }
#[track_caller]
fn f(x: &Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_reference::<Layer<f32>, _>(x),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: &Layer<f32> = ::dl::bang::lend::<_, Layer<f32>>(&kept.0);
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "!x < 0.0",
                                &["return -x", "nothing"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        if ({
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        } < 0.0) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            {
                                let returned: Layer<f32> = -x;
                                return ::core::result::Result::Ok(returned);
                            };
                        }
                        x * 2.0
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

