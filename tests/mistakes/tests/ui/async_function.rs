use dl::prelude::*;

#[differentiable]
async fn doubled(x: &Layer<f64>) -> Layer<f64> {
    x * !x
}

fn main() {
    // The function still exists.
    let _ = doubled(&Layer::constant(1.0));
}
