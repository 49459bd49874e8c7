use dl::prelude::*;

use std::cell::RefCell;

#[differentiable]
fn noted(x: &Layer<f64>, notes: &RefCell<Vec<f64>>) -> Layer<f64> {
    let v = !x;
    notes.borrow_mut().push(v);
    x.clone()
}

fn main() {}
