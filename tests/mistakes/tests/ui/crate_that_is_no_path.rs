use dl::prelude::*;

#[differentiable(crate = "dl")]
fn same(x: Layer<f64>) -> Layer<f64> {
    x
}

fn main() {}
