use dl::prelude::*;

#[differentiable]
fn moved(x: Layer<f64>) -> Layer<f64> {
    let v = !x;
    drop(x);
    x * v
}

#[differentiable]
fn joined(x: NdLayer, y: &NdLayer) -> NdLayer {
    let both = concat(1, [x, y.clone()]);
    both.relu().matmul(&x)
}

fn main() {}
