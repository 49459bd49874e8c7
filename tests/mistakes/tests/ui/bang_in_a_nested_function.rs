use dl::prelude::*;

#[differentiable]
fn outer(x: &Layer<f64>) -> Layer<f64> {
    fn inner(x: &Layer<f64>) -> Layer<f64> {
        x * !x
    }
    inner(x) * !x
}

fn main() {}
