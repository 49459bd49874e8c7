use dl::prelude::*;

#[derive(Module)]
#[module(skip)]
struct Net {
    #[module(hidden)]
    weight: Weight<f64>,
    #[module(rename)]
    bias: Weight<f64>,
}

fn main() {}
