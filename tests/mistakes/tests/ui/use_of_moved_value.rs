use dl::prelude::*;

#[differentiable]
fn moved(x: Layer<f64>) -> Layer<f64> {
    let v = !x;
    drop(x);
    x * v
}

fn main() {}
