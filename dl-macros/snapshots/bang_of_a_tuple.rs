// fn f(x: Layer<f32>, w: &Weight<f32>) -> Layer<f32> {
//     let (a, b, c) = !(x + w, 2.0, w);
//     a + b + c + w
// }
fn f(x: Layer<f32>, w: &Weight<f32>) -> Layer<f32> {
    let (a, b, c) = {
        let start = ::dl::bang::value((
                ::dl::bang::operand(&x).duplicate()
                    + ::dl::bang::operand(&w).duplicate(),
                ::dl::bang::Literal(2.0),
                &w,
            ))
            .start();
        let value = start.await?;
        value
    };
    a + b + c + w
}

