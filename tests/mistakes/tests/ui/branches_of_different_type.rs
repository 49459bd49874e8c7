use dl::prelude::*;

#[differentiable]
fn limited(x: &Layer<f64>) -> Layer<f64> {
    if !x > 1.0 { 1.0 } else { x.clone() }
}

#[differentiable]
fn returned(x: &Layer<f64>) -> Layer<f64> {
    if !x > 1.0 {
        return 1.0;
    }
    !x
}

fn main() {}
