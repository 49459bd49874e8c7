use dl::prelude::*;

#[differentiable]
fn scaled(x: &Layer<f64>) -> Layer<f64> {
    const SCALE: f64 = !x;
    x * SCALE
}

fn main() {}
