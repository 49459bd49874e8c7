use dl::prelude::*;

#[differentiable]
fn borrowed(x: &Layer<f64>) -> Do<&'static f64> {
    let v = !x;
    Do::now(&v)
}

fn main() {}
