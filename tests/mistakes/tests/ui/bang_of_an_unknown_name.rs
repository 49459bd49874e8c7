use dl::prelude::*;

#[differentiable]
fn scaled(x: &Layer<f64>) -> Layer<f64> {
    x * !scale
}

fn main() {}
