use dl::prelude::*;

#[differentiable]
fn scaled(x: &Layer<f64>) -> Layer<f64> {
    x * !x;
}

#[differentiable]
fn returned(x: &Layer<f64>) -> Layer<f64> {
    if !x > 0.0 {
        return;
    }
    x.clone()
}

fn main() {}
