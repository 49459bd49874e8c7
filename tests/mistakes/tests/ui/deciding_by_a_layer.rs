use dl::prelude::*;

#[differentiable]
fn step(x: &Layer<f64>, open: &Layer<bool>) -> Layer<f64> {
    let y = match x {
        0.0 => return x.clone(),
        _ => !x,
    };
    if open {
        return x * y;
    }
    x.clone()
}

#[differentiable]
fn name(w: &Weight<f64>) -> &'static str {
    match w {
        ..0.0 => "negative",
        _ => "positive",
    }
}

fn main() {}
