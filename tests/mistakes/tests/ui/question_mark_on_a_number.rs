use dl::prelude::*;

#[differentiable]
fn checked(x: &Layer<f64>, input: Result<f64, u8>) -> Layer<f64> {
    x * input?
}

fn main() {}
