use dl::prelude::*;

#[differentiable]
fn first(xs: &[f64], x: &Layer<f64>) -> Layer<f64> {
    let first = xs.first()?;
    x * *first
}

fn main() {}
