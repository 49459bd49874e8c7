use dl::prelude::*;

#[differentiable]
struct Net {
    weight: Weight<f64>,
}

fn main() {}
