// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     let [a, b] = ![x, y];
//     let [c, d] = ![x, x + y];
//     x * a * b * c * d
// }
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    let extracted_0_1;
    let [a, b] = {
        let start_0 = ::dl::bang::value([&x, &y]).start();
        let start_1 = ::dl::bang::value([
                ::dl::bang::operand(&x).duplicate(),
                ::dl::bang::operand(&x).duplicate() + ::dl::bang::operand(&y).duplicate(),
            ])
            .start();
        let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
        extracted_0_1 = result_1;
        first
    };
    let [c, d] = extracted_0_1;
    x * a * b * c * d
}

