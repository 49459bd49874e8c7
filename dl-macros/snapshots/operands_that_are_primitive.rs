// fn f(x: f32, n: usize) -> f32 {
//     let y = x * 2.0;
//     let z = y * y + x;
//     z + n as f32 * z - -y
// }
fn f(x: f32, n: usize) -> f32 {
    let y = x * 2.0;
    let z = y * y + x;
    z + n as f32 * z - -y
}

