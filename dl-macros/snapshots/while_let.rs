// fn f(x: &Chain) -> Layer<f32> {
//     let mut z = x.clone();
//     while let Some(next) = !z.next() {
//         z = next;
//     }
//     z.value()
// }
#[track_caller]
fn f(x: &Chain) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((::dl::bang::keep_reference::<Chain, _>(x),));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: &Chain = ::dl::bang::lend::<_, Chain>(&kept.0);
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "let Some(next) = !z.next()",
                                &["another round", "end"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        let mut z = x.clone();
                        {
                            while let Some(next) = {
                                let start = ::dl::bang::value(z.next()).start();
                                let value = start.await?;
                                value
                            } {
                                ::dl::bang::took(&branches[0], 0);
                                z = next;
                            }
                            ::dl::bang::took(&branches[0], 1);
                        }
                        z.value()
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

