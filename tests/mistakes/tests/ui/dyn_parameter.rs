use dl::prelude::*;

trait Module {
    fn of(&self, x: &Layer<f64>) -> Layer<f64>;
}

#[differentiable]
fn applied(module: &dyn Module, x: &Layer<f64>) -> Layer<f64> {
    let y = module.of(x);
    y * !y
}

fn main() {}
