#![forbid(unsafe_code)]
use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn joined(x: &Layer<f64>, y: &Layer<f64>) -> (Layer<f64>, Do<f64>) {
    let (a, b) = !(x, y);
    (x * a + y * b, Do::now(a + b))
}

#[test]
fn expansion_compiles_with_forbidden_unsafe_code() {
    let (layer, sum) = joined(&Layer::constant(1.0), &Layer::constant(2.0));
    assert_eq!((value(&layer), sum.wait().unwrap()), (5.0, 3.0));
}
