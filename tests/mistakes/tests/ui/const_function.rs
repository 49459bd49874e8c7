use dl::prelude::*;

#[differentiable]
const fn constant(x: Layer<f64>) -> Layer<f64> {
    x
}

fn main() {
    let _: Layer<f64> = constant(Layer::constant(1.0));
}
