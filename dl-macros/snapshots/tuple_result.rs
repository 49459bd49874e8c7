// fn cell(h: &NdLayer, c: &NdLayer) -> (NdLayer, NdLayer) {
//     if !h > !c { (h * c, c.clone()) } else { (h.clone(), c * h) }
// }
#[track_caller]
fn cell(h: &NdLayer, c: &NdLayer) -> (NdLayer, NdLayer) {
    ::dl::bang::function(::core::module_path!(), "cell")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_reference::<NdLayer, _>(h),
                ::dl::bang::keep_reference::<NdLayer, _>(c),
            ));
            ::dl::bang::lazy::<
                (NdLayer, NdLayer),
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let h: &NdLayer = ::dl::bang::lend::<_, NdLayer>(&kept.0);
                    let c: &NdLayer = ::dl::bang::lend::<_, NdLayer>(&kept.1);
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "!h > !c",
                                &["(h * c, c.clone())", "(h.clone(), c * h)"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: (NdLayer, NdLayer) = {
                        let extracted_0_1;
                        if ({
                            let start_0 = ::dl::bang::place(&h).start();
                            let start_1 = ::dl::bang::place(&c).start();
                            let (first, result_1) = ::dl::bang::join((start_0, start_1))
                                .await?;
                            extracted_0_1 = result_1;
                            first
                        } > extracted_0_1) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            (h * ::dl::bang::operand(&c).duplicate(), c.clone())
                        } else {
                            (h.clone(), c * h)
                        }
                    };
                    #[allow(unreachable_code)]
                    return ::core::result::Result::Ok::<
                        (NdLayer, NdLayer),
                        ::dl::bang::Error,
                    >(tail);
                }
            })
        })
}

