// fn f(text: &str, x: Layer<f32>) -> Layer<f32> {
//     let n: f32 = text.parse()?;
//     x * n
// }
#[track_caller]
fn f(text: &str, x: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_reference::<str, _>(text),
                ::dl::bang::keep_value(x),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let text: &str = ::dl::bang::lend::<_, str>(&kept.0);
                    let x: Layer<f32> = kept.1.take();
                    let tail: Layer<f32> = {
                        let n: f32 = ::dl::bang::attempt(text.parse())?;
                        x * n
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

