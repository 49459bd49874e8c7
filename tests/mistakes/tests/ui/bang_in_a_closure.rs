use dl::prelude::*;

#[differentiable]
fn total(xs: &[Layer<f64>], x: &Layer<f64>) -> Layer<f64> {
    let sum: f64 = xs.iter().map(|x| !x).sum();
    x * sum * !x
}

fn main() {}
