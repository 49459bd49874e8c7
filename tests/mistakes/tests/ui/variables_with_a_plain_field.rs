use dl::prelude::*;

#[derive(Variables)]
struct Net {
    weight: Weight<f64>,
    width: usize,
}

fn main() {}
