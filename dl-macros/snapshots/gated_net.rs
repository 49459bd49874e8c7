// fn gated_net(input: &NdLayer, net: &Net) -> NdLayer {
//     let scores = net.gate(input);
//     let (left, right) = !scores;
//     if left > right {
//         scores.0 * net.left.of(input)
//     } else {
//         scores.1 * net.right.of(input)
//     }
// }
#[track_caller]
fn gated_net(input: &NdLayer, net: &Net) -> NdLayer {
    ::dl::bang::function(::core::module_path!(), "gated_net")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_reference::<NdLayer, _>(input),
                ::dl::bang::keep_reference::<Net, _>(net),
            ));
            ::dl::bang::lazy::<
                NdLayer,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let input: &NdLayer = ::dl::bang::lend::<_, NdLayer>(&kept.0);
                    let net: &Net = ::dl::bang::lend::<_, Net>(&kept.1);
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "left > right",
                                &[
                                    "scores.0 * net.left.of(input)",
                                    "scores.1 * net.right.of(input)",
                                ],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: NdLayer = {
                        let scores = net.gate(input);
                        let (left, right) = {
                            let start = ::dl::bang::place(&scores).start();
                            let value = start.await?;
                            value
                        };
                        if (left > right) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            ::dl::bang::operand(&scores.0).duplicate()
                                * net.left.of(input)
                        } else {
                            ::dl::bang::operand(&scores.1).duplicate()
                                * net.right.of(input)
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

