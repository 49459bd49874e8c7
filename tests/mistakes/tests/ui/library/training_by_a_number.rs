use dl::prelude::*;

fn step(loss: &Layer<f64>) -> Do<f64> {
    loss.train(&0.1)
}

fn main() {}
