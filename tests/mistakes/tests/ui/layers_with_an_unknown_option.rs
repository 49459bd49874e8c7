use dl::prelude::*;

#[derive(Clone, Layers)]
#[layers(rename = "H")]
struct State {
    h: Layer<f64>,
}

fn main() {}
