// fn f(xs: &[f32], w: Weight<f32>) -> Layer<f32> {
//     xs.iter().map(|x| x * w).sum()
// }
fn f(xs: &[f32], w: Weight<f32>) -> Layer<f32> {
    xs.iter().map(|x| x * ::dl::bang::operand(&w).duplicate()).sum()
}

