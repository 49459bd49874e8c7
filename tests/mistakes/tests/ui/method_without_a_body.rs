use dl::prelude::*;

trait Module {
    #[differentiable]
    fn of(&self, x: &Layer<f64>) -> Layer<f64>;
}

fn main() {}
