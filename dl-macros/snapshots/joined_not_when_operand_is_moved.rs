// fn f(x: Layer<f32>, y: &Layer<f32>, point: Point) -> Layer<f32> {
//     let a = !x + point.n;
//     let b = !near(y, point);
//     let c = !far(y, b) * y;
//     let d = !near(y, Point::new(1.0, 2.0));
//     x * a * c * d
// }
fn f(x: Layer<f32>, y: &Layer<f32>, point: Point) -> Layer<f32> {
    let a = {
        let start = ::dl::bang::place(&x).start();
        let value = start.await?;
        value
    } + ::dl::bang::operand(&point.n).duplicate();
    let b = {
        let start = ::dl::bang::value(near(y, point)).start();
        let value = start.await?;
        value
    };
    let extracted_2_1;
    let c = {
        let start_0 = ::dl::bang::value(far(y, b)).start();
        let start_1 = ::dl::bang::value(near(y, Point::new(1.0, 2.0))).start();
        let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
        extracted_2_1 = result_1;
        first
    } * ::dl::bang::operand(&y).duplicate();
    let d = extracted_2_1;
    x * a * c * d
}

