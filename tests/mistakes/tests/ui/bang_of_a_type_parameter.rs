use dl::prelude::*;

#[differentiable]
fn chosen<T: Clone + Send + Sync + 'static>(x: &T, y: &Layer<f64>) -> Layer<f64> {
    let v = !x;
    y * v
}

fn main() {}
