use dl::prelude::*;

#[differentiable]
fn gated(gate: &NdLayer, x: &NdLayer) -> NdLayer {
    if !gate > 0.5 { x * 2.0 } else { x.layer() }
}

fn main() {}
