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
fn f(x: &Layer<f64>, y: &Layer<f64>) -> Layer<f64> {
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
            "{}", { let start = ::dl::bang::place(& y).start(); let value = start. await
            ?; value }
        );
    }
    x * v
}

