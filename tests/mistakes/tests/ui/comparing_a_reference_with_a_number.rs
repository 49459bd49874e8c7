use dl::prelude::*;

#[differentiable]
fn clipped(x: &Layer<f32>, w: &Weight<f64>, limit: f32) -> Layer<f32> {
    if x > 0.0 && x < limit {
        return x.clone();
    }
    let mut y = x * 2.0;
    while x < 10.0 {
        y = y * 2.0;
    }
    if w == 0.0 || x > y {
        return y;
    }
    y * !x
}

fn main() {}
