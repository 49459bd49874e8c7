use dl::prelude::*;

#[derive(Clone, Layers)]
enum State {
    On(Layer<f64>),
    Off,
}

fn main() {}
