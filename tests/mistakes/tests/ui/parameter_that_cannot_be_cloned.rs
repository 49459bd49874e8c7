use dl::prelude::*;

struct Net {
    weight: Weight<f64>,
}

impl Net {
    #[differentiable]
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        self.weight * !x
    }
}

#[differentiable]
fn apply(net: &Net, x: Layer<f64>) -> Layer<f64> {
    net.of(&x) * !x
}

fn main() {}
