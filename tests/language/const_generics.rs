use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn rotated<const N: usize>(xs: [Layer<f64>; N], by: &Layer<f64>) -> [Layer<f64>; N] {
    let by = !by as usize;
    std::array::from_fn(|i| xs[(i + by) % N].clone())
}

#[test]
fn const_generic_array_result_returns_layers() {
    let [a, b, c] = rotated([1.0, 2.0, 3.0].map(Layer::constant), &Layer::constant(1.0));
    assert_eq!((value(&a), value(&b), value(&c)), (2.0, 3.0, 1.0));
}
