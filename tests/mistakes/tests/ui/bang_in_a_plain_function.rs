use dl::prelude::*;

#[differentiable]
fn as_number(x: &Layer<f64>) -> f64 {
    !x
}

#[differentiable]
fn as_result(w: Weight<f64>) -> dl::Result<f64> {
    let v = !w;
    Ok(v)
}

fn main() {}
