use dl::prelude::*;

#[differentiable(lazy = true)]
fn same(x: Layer<f64>) -> Layer<f64> {
    x
}

fn main() {}
