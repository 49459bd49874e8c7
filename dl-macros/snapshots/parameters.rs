// fn f((a, b): (Layer<f32>, f32), mut n: usize, names: &[String], _: u8) -> Layer<f32> {
//     n += 1;
//     a * (!a + b) * n as f32 * names.len() as f32
// }
#[track_caller]
fn f(argument_0: (Layer<f32>, f32), n: usize, names: &[String], _: u8) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(argument_0),
                ::dl::bang::keep_value(n),
                ::dl::bang::keep_reference::<[String], _>(names),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let (a, b): (Layer<f32>, f32) = kept.0.take();
                    let mut n: usize = kept.1.take();
                    let names: &[String] = ::dl::bang::lend::<_, [String]>(&kept.2);
                    let tail: Layer<f32> = {
                        n += 1;
                        ::dl::bang::operand(&a).duplicate()
                            * ({
                                let start = ::dl::bang::place(&a).start();
                                let value = start.await?;
                                value
                            } + b) * n as f32 * names.len() as f32
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

