use dl::prelude::*;

#[differentiable]
fn mixed(x: &Layer<f64>, w: &Weight<f32>) -> Layer<f64> {
    let v = !w;
    x * w * v
}

fn main() {}
