// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     let a = !x;
//     let b = !(y * a);
//     x * b
// }
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    let a = {
        let start = ::dl::bang::place(&x).start();
        let value = start.await?;
        value
    };
    let b = {
        let start = ::dl::bang::value(
                ::dl::bang::operand(&y).duplicate() * ::dl::bang::operand(&a).duplicate(),
            )
            .start();
        let value = start.await?;
        value
    };
    x * b
}

