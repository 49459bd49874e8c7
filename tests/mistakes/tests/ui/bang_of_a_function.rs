use dl::prelude::*;

fn net(x: Layer<f64>) -> Layer<f64> {
    x
}

#[differentiable]
fn called(x: &Layer<f64>) -> Layer<f64> {
    let y = !net;
    x * y
}

fn main() {}
