// fn f(x: &Chain) -> Layer<f32> {
//     let mut z = x.clone();
//     while let Some(next) = !z.next() {
//         z = next;
//     }
//     z.value()
// }
fn f(x: &Chain) -> Layer<f32> {
    let kept = ::dl::bang::keep((::dl::bang::keep_reference::<Chain, _>(x),));
    ::dl::bang::lazy::<
        Layer<f32>,
        _,
        _,
    >(move || {
        let kept = ::core::clone::Clone::clone(&kept);
        async move {
            let x: &Chain = ::dl::bang::lend::<_, Chain>(&kept.0);
            let tail: Layer<f32> = {
                let mut z = x.clone();
                while let Some(next) = {
                    let start = ::dl::bang::value(z.next()).start();
                    let value = start.await?;
                    value
                } {
                    z = next;
                }
                z.value()
            };
            #[allow(unreachable_code)]
            return ::core::result::Result::Ok::<Layer<f32>, ::dl::bang::Error>(tail);
        }
    })
}

