// fn f(x: Layer<f32>) -> Layer<f32> {
//     let r = &x;
//     let y = x * 2.0;
//     y + r
// }
fn f(x: Layer<f32>) -> Layer<f32> {
    let r = &x;
    let y = ::dl::bang::operand(&x).duplicate() * 2.0;
    y + r
}

