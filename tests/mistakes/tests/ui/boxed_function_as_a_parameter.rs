use dl::prelude::*;

#[differentiable]
fn applied(f: Box<dyn Fn(f64) -> f64>, g: &Box<dyn Fn(f64) -> f64 + Send + Sync>, x: &Layer<f64>) -> Layer<f64> {
    x * f(g(!x))
}

fn main() {}
