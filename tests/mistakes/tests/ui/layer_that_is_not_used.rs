#![deny(unused_must_use)]

use dl::prelude::*;

#[differentiable]
fn twice(x: &Layer<f64>) -> Layer<f64> {
    x * !x
}

fn main() {
    twice(&Layer::constant(1.0));
}
