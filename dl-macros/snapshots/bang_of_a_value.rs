// fn f(net: &Net) -> NdLayer {
//     let v = !net.gate();
//     net.of(v)
// }
#[track_caller]
fn f(net: &Net) -> NdLayer {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((::dl::bang::keep_reference::<Net, _>(net),));
            ::dl::bang::lazy::<
                NdLayer,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let net: &Net = ::dl::bang::lend::<_, Net>(&kept.0);
                    let tail: NdLayer = {
                        let v = {
                            let start = ::dl::bang::value(net.gate()).start();
                            let value = start.await?;
                            value
                        };
                        net.of(v)
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

