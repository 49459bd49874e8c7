// fn f(s: (Layer<f32>, Layer<f32>)) -> Layer<f32> {
//     s.0 * s.1 + s.0
// }
fn f(s: (Layer<f32>, Layer<f32>)) -> Layer<f32> {
    ::dl::bang::operand(&s.0).duplicate() * ::dl::bang::operand(&s.1).duplicate()
        + ::dl::bang::operand(&s.0).duplicate()
}

