use dl::prelude::*;

#[differentiable]
fn relu(x: &NdLayer) -> NdLayer {
    where_(x > 0.0, x, 0.0)
}

fn main() {}
