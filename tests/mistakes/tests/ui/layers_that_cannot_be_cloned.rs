use dl::prelude::*;

#[derive(Layers)]
struct State {
    h: Layer<f64>,
}

fn main() {}
