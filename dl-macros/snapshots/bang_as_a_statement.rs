// fn f(x: Layer<f32>) -> Layer<f32> {
//     !x;
//     x
// }
fn f(x: Layer<f32>) -> Layer<f32> {
    {
        let start = ::dl::bang::place(&x).start();
        let value = start.await?;
        value
    };
    x
}

