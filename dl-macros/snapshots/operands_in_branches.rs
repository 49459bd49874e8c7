// fn f(x: Layer<f32>, y: Layer<f32>, c: bool) -> Layer<f32> {
//     if c { x * y } else { x + x }
// }
fn f(x: Layer<f32>, y: Layer<f32>, c: bool) -> Layer<f32> {
    if c { x * y } else { ::dl::bang::operand(&x).duplicate() + x }
}

