use dl::prelude::*;

#[differentiable]
fn mapped<F: Fn(f64) -> f64>(x: &Layer<f64>, f: F) -> Layer<f64> {
    x * f(!x)
}

fn main() {}
