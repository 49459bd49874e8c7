use dl::prelude::*;

use std::rc::Rc;

#[differentiable]
fn counted(x: &Layer<f64>) -> Layer<f64> {
    let count = Rc::new(1.0);
    let v = !x;
    x * v * *count
}

fn main() {}
