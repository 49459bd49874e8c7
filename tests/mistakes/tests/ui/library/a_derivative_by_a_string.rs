use dl::prelude::*;

fn twice(x: &impl Differentiable<Data = f64>) -> Layer<f64> {
    x.layer() * 2.0
}

fn call() -> Layer<f64> {
    twice(&"1.5")
}

fn main() {}
