use dl::prelude::*;

struct Batch<'a> {
    rows: &'a [f64],
}

#[differentiable]
fn named(x: &Layer<f64>, names: &[&str]) -> Layer<f64> {
    if names.len() > 1 { x * !x } else { x.clone() }
}

#[differentiable]
fn first(x: &Layer<f64>, batch: Batch<'_>, other: Option<&Layer<f64>>) -> Layer<f64> {
    x * !x * batch.rows[0]
}

fn main() {}
