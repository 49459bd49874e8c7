use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn ping(x: Layer<f64>, n: usize) -> Layer<f64> {
    if !x > 100.0 || n == 0 { x } else { pong(x * 2.0, n - 1) }
}

#[differentiable]
fn pong(x: Layer<f64>, n: usize) -> Layer<f64> {
    let v = !x;
    ping(x + v, n)
}

#[test]
fn mutually_recursive_lazy_functions_terminate() {
    assert_eq!(value(&ping(Layer::constant(1.0), 10)), 256.0);
}
