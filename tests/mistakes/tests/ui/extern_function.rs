use dl::prelude::*;

#[differentiable]
extern "C" fn foreign(x: Layer<f64>) -> Layer<f64> {
    x
}

fn main() {}
