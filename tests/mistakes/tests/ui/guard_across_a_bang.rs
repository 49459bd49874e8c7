use dl::prelude::*;

use std::sync::{Arc, Mutex};

#[differentiable]
fn noted(x: &Layer<f64>, notes: &Arc<Mutex<Vec<f64>>>) -> Layer<f64> {
    let mut notes = notes.lock().unwrap();
    notes.push(!x);
    x.clone()
}

fn main() {}
