// fn f(x: &Score) -> Score {
//     let v = !x;
//     x * v
// }
#[track_caller]
fn f(x: &Score) -> Score {
    my::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = my::dl::bang::keep((
                my::dl::bang::keep_reference::<Score, _>(x),
            ));
            my::dl::bang::lazy::<
                Score,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: &Score = my::dl::bang::lend::<_, Score>(&kept.0);
                    let tail: Score = {
                        let v = {
                            let start = my::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        };
                        x * v
                    };
                    #[allow(unreachable_code)]
                    return ::core::result::Result::Ok::<
                        Score,
                        my::dl::bang::Error,
                    >(tail);
                }
            })
        })
}

