// fn f(a: impl NdExpression, b: &impl NdExpression) -> NdLayer {
//     a * b
// }
#[track_caller]
fn f(a: impl NdExpression, b: &impl NdExpression) -> NdLayer {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || -> NdLayer {
            let a = ::dl::bang::layer(&a);
            let b = &::dl::bang::layer(&b);
            a * b
        })
}

// fn f<A: NdExpression, B>(a: A, b: &B) -> NdLayer
// where
//     B: Expression,
// {
//     if !a > 0.0 { a * b } else { a }
// }
#[track_caller]
fn f<A: NdExpression, B>(a: A, b: &B) -> NdLayer
where
    B: Expression,
{
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((::dl::bang::layer(&a), ::dl::bang::layer(&b)));
            ::dl::bang::lazy::<
                NdLayer,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let a = ::core::clone::Clone::clone(&kept.0);
                    let b = &kept.1;
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new("!a > 0.0", &["a * b", "a"]),
                        ];
                        &BRANCHES
                    };
                    let tail: NdLayer = {
                        if ({
                            let start = ::dl::bang::place(&a).start();
                            let value = start.await?;
                            value
                        } > 0.0) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            a * b
                        } else {
                            a
                        }
                    };
                    #[allow(unreachable_code)]
                    return ::core::result::Result::Ok::<
                        NdLayer,
                        ::dl::bang::Error,
                    >(tail);
                }
            })
        })
}

