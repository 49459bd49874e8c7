// fn f(x: Layer<f32>, n: usize) -> Layer<f32> {
//     let mut y = x;
//     for _ in 0..n {
//         y = y * y + y;
//     }
//     y
// }
fn f(x: Layer<f32>, n: usize) -> Layer<f32> {
    let mut y = x;
    for _ in 0..n {
        y = ::dl::bang::operand(&y).duplicate() * ::dl::bang::operand(&y).duplicate()
            + y;
    }
    y
}

// fn f(x: Layer<f32>, n: usize) -> Layer<f32> {
//     let mut y = x + 1.0;
//     loop {
//         y = y * x;
//         if n > 3 {
//             break;
//         }
//     }
//     y
// }
fn f(x: Layer<f32>, n: usize) -> Layer<f32> {
    let mut y = ::dl::bang::operand(&x).duplicate() + 1.0;
    loop {
        y = y * ::dl::bang::operand(&x).duplicate();
        if n > 3 {
            break;
        }
    }
    y
}

