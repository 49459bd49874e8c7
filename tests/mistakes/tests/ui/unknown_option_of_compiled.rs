use dl::prelude::*;

#[differentiable(compiled(batched))]
fn doubled(x: &Layer<f64>) -> Layer<f64> {
    x * 2.0
}

fn main() {
    let _ = doubled(&Layer::constant(1.0));
}
