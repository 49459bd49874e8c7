// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     g(!x, 3, !(x + y))
// }
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    let extracted_0_1;
    g(
        {
            let start_0 = ::dl::bang::place(&x).start();
            let start_1 = ::dl::bang::value(
                    ::dl::bang::operand(&x).duplicate()
                        + ::dl::bang::operand(&y).duplicate(),
                )
                .start();
            let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
            extracted_0_1 = result_1;
            first
        },
        3,
        extracted_0_1,
    )
}

