// fn f(x: Layer<f32>, mut z: Chain) -> Layer<f32> {
//     let a = !x + z.first;
//     let b = !z.next();
//     x * a * b
// }
#[track_caller]
fn f(x: Layer<f32>, z: Chain) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(x),
                ::dl::bang::keep_value(z),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: Layer<f32> = kept.0.take();
                    let mut z: Chain = kept.1.take();
                    let tail: Layer<f32> = {
                        let a = {
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        } + ::dl::bang::operand(&z.first).duplicate();
                        let b = {
                            let start = ::dl::bang::value(z.next()).start();
                            let value = start.await?;
                            value
                        };
                        x * a * b
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

