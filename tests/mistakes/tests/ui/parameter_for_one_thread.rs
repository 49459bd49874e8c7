use dl::prelude::*;

use std::rc::Rc;

#[differentiable]
fn shared(x: &Layer<f64>, scale: Rc<f64>) -> Layer<f64> {
    x * !x * *scale
}

fn main() {}
