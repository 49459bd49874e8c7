// fn square(x: &Layer<f32>, y: f32) -> Layer<f32> {
//     let difference = x - y;
//     difference * difference
// }
fn square(x: &Layer<f32>, y: f32) -> Layer<f32> {
    let difference = x - y;
    ::dl::bang::operand(&difference).duplicate() * difference
}

