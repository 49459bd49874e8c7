// fn f(x: &Layer<f64>, y: &Layer<f64>) -> Layer<f64> {
//     let v = !x;
//     #[cfg(any())] return x * !y;
//     #[cfg(test)]
//     let w = !y;
//     #[cfg(test)] note(w)?;
//     #[cfg(debug_assertions)]
//     println!("{}", ! y);
//     x * v
// }
#[track_caller]
fn f(x: &Layer<f64>, y: &Layer<f64>) -> Layer<f64> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_reference::<Layer<f64>, _>(x),
                ::dl::bang::keep_reference::<Layer<f64>, _>(y),
            ));
            ::dl::bang::lazy::<
                Layer<f64>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: &Layer<f64> = ::dl::bang::lend::<_, Layer<f64>>(&kept.0);
                    let y: &Layer<f64> = ::dl::bang::lend::<_, Layer<f64>>(&kept.1);
                    let tail: Layer<f64> = {
                        let v = {
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        };
                        #[cfg(any())]
                        {
                            {
                                let returned: Layer<f64> = x
                                    * {
                                        let start = ::dl::bang::place(&y).start();
                                        let value = start.await?;
                                        value
                                    };
                                return ::core::result::Result::Ok(returned);
                            };
                        }
                        #[cfg(test)]
                        let w = {
                            let start = ::dl::bang::place(&y).start();
                            let value = start.await?;
                            value
                        };
                        #[cfg(test)]
                        {
                            ::dl::bang::attempt(note(w))?;
                        }
                        #[cfg(debug_assertions)]
                        {
                            println!(
                                "{}", { let start = ::dl::bang::place(& y).start(); let
                                value = start. await ?; value }
                            );
                        }
                        x * v
                    };
                    #[allow(unreachable_code)]
                    return ::core::result::Result::Ok::<
                        Layer<f64>,
                        ::dl::bang::Error,
                    >(tail);
                }
            })
        })
}

