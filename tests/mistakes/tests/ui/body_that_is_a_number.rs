use dl::prelude::*;

#[differentiable]
fn doubled(x: &Layer<f64>) -> Layer<f64> {
    let y = !x;
    y * 2.0
}

#[differentiable]
fn total(x: &NdLayer) -> Layer<f32> {
    !x.sum()
}

#[differentiable]
fn sign(x: &Layer<f64>) -> Layer<f64> {
    if !x > 0.0 {
        return 1.0;
    }
    match !x {
        0.0 => 0.0,
        _ => -1.0,
    }
}

#[differentiable]
fn absolute(x: &Layer<f32>) -> Layer<f32> {
    let y = !x;
    y.abs()
}

fn main() {}
