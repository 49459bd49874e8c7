use dl::prelude::*;

#[derive(Clone, Layers)]
struct State {
    h: Layer<f64>,
    steps: usize,
}

fn main() {}
