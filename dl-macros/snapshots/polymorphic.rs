// fn f(a: impl NdExpression, b: &impl NdExpression) -> NdLayer {
//     a * b
// }
fn f(a: impl NdExpression, b: &impl NdExpression) -> NdLayer {
    let a = ::dl::bang::layer(&a);
    let b = ::dl::bang::layer(&b);
    a * b
}

// fn f<A: NdExpression, B>(a: A, b: &B) -> NdLayer
// where
//     B: Expression,
// {
//     if !a > 0.0 { a * b } else { a }
// }
fn f<A: NdExpression, B>(a: A, b: &B) -> NdLayer
where
    B: Expression,
{
    let kept = ::dl::bang::keep((::dl::bang::layer(&a), ::dl::bang::layer(&b)));
    ::dl::bang::lazy::<
        NdLayer,
        _,
        _,
    >(move || {
        let kept = ::core::clone::Clone::clone(&kept);
        async move {
            let a = ::core::clone::Clone::clone(&kept.0);
            let b = ::core::clone::Clone::clone(&kept.1);
            let tail: NdLayer = {
                if {
                    let start = ::dl::bang::place(&a).start();
                    let value = start.await?;
                    value
                } > 0.0
                {
                    a * b
                } else {
                    a
                }
            };
            #[allow(unreachable_code)]
            return ::core::result::Result::Ok::<NdLayer, ::dl::bang::Error>(tail);
        }
    })
}

