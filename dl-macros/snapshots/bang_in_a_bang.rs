// fn f(x: Layer<f32>, net: Net) -> Layer<f32> {
//     let v = !net.of(!x);
//     x * v
// }
fn f(x: Layer<f32>, net: Net) -> Layer<f32> {
    let v = {
        let start = ::dl::bang::value(
                net
                    .of({
                        let start = ::dl::bang::place(&x).start();
                        let value = start.await?;
                        value
                    }),
            )
            .start();
        let value = start.await?;
        value
    };
    x * v
}

