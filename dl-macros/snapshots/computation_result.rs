// fn f(x: &Layer<f32>) -> Do<f32> {
//     let v = !x;
//     Do::now(v * 2.0)
// }
#[track_caller]
fn f(x: &Layer<f32>) -> Do<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_reference::<Layer<f32>, _>(x),
            ));
            ::dl::bang::lazy::<
                Do<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: &Layer<f32> = ::dl::bang::lend::<_, Layer<f32>>(&kept.0);
                    let tail: Do<f32> = {
                        let v = {
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        };
                        Do::now(v * 2.0)
                    };
                    #[allow(unreachable_code)]
                    return ::core::result::Result::Ok::<
                        Do<f32>,
                        ::dl::bang::Error,
                    >(tail);
                }
            })
        })
}

