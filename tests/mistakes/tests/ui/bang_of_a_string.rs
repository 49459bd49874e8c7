use dl::prelude::*;

#[differentiable]
fn scaled(x: &Layer<f64>, name: String) -> Layer<f64> {
    let text = !name;
    x * !"2.0".to_owned()
}

fn main() {}
