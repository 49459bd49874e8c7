// fn f(x: Layer<f32>, mut z: Chain) -> Layer<f32> {
//     let a = !x + z.first;
//     let b = !z.next();
//     x * a * b
// }
fn f(x: Layer<f32>, z: Chain) -> Layer<f32> {
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
}

