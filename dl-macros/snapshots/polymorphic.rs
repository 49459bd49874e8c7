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

// fn f(xs: &[impl Scorer + Clone], x: &Layer<f32>) -> Layer<f32> {
//     x * !x * xs.len() as f32
// }
#[track_caller]
fn f(xs: &[impl Scorer + Clone], x: &Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_lent(xs),
                ::dl::bang::keep_reference::<Layer<f32>, _>(x),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let xs = kept.0.take();
                    let x: &Layer<f32> = ::dl::bang::lend::<_, Layer<f32>>(&kept.1);
                    let tail: Layer<f32> = {
                        ::dl::bang::operand(&x).duplicate()
                            * {
                                let start = ::dl::bang::place(&x).start();
                                let value = start.await?;
                                value
                            } * xs.len() as f32
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

