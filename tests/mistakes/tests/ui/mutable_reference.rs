use dl::prelude::*;

#[differentiable]
fn counted(x: &Layer<f64>, count: &mut usize) -> Layer<f64> {
    *count += 1;
    x * !x
}

fn main() {}
