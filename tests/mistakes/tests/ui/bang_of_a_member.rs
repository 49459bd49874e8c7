use dl::prelude::*;

#[differentiable]
fn scaled(x: &Layer<f64>) -> Layer<f64> {
    let (a, b) = !(x, std::time::Duration::ZERO);
    x * a
}

fn main() {}
