// fn f(x: Layer<f32>, y: Layer<f32>, p: Point) -> Layer<f32> {
//     let a = !x;
//     let k = 2.0;
//     let r = (&p.x, [k, p.y as f32]);
//     let b = !y;
//     x * (a + b + k + *r.0)
// }
fn f(x: Layer<f32>, y: Layer<f32>, p: Point) -> Layer<f32> {
    let extracted_0_1;
    let a = {
        let start_0 = ::dl::bang::place(&x).start();
        let start_1 = ::dl::bang::place(&y).start();
        let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
        extracted_0_1 = result_1;
        first
    };
    let k = 2.0;
    let r = (&p.x, [k, p.y as f32]);
    let b = extracted_0_1;
    x * (a + b + k + ::dl::bang::operand(&*r.0).duplicate())
}

