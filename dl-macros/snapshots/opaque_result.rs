// fn f(a: impl Expression) -> impl Expression {
//     if !a > 0.0 {
//         return a;
//     }
//     a * 2.0
// }
#[track_caller]
fn f(a: impl Expression) -> impl Expression {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((::dl::bang::layer(&a),));
            ::dl::bang::lazy::<
                ::dl::bang::Layer<_>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let a = ::core::clone::Clone::clone(&kept.0);
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new("!a > 0.0", &["return a", "nothing"]),
                        ];
                        &BRANCHES
                    };
                    let tail = {
                        if ({
                            let start = ::dl::bang::place(&a).start();
                            let value = start.await?;
                            value
                        } > 0.0) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            return ::core::result::Result::Ok(::dl::bang::layer(&a));
                        }
                        a * 2.0
                    };
                    #[allow(unreachable_code)]
                    return ::core::result::Result::Ok::<
                        _,
                        ::dl::bang::Error,
                    >(::dl::bang::layer(&tail));
                }
            })
        })
}

