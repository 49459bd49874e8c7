use dl::prelude::*;

#[derive(Module)]
enum Layer {
    Linear(Weight<f64>),
    Nothing,
}

fn main() {}
