use dl::prelude::*;

#[differentiable]
fn half(x: &Layer<f64>) -> Layer<f64> {
    let y = ;
    x * !y
}

fn main() {}
