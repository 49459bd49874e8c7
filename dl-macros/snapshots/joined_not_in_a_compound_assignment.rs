// fn f(mut v: Vec<f32>, x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     v[!x as usize] += !y;
//     x * v[0]
// }
fn f(v: Vec<f32>, x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    v[{
        let start = ::dl::bang::place(&x).start();
        let value = start.await?;
        value
    } as usize]
        += {
            let start = ::dl::bang::place(&y).start();
            let value = start.await?;
            value
        };
    x * ::dl::bang::operand(&v[0]).duplicate()
}

