// fn f(x: Layer<f32>, flag: bool, n: u8) -> Layer<f32> {
//     if !flag && !(n > 3) { x } else { x * 2.0 }
// }
fn f(x: Layer<f32>, flag: bool, n: u8) -> Layer<f32> {
    if !flag && !(n > 3) { x } else { x * 2.0 }
}

