use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn shadowed(x: Layer<f64>) -> Layer<f64> {
    let v = !x;
    let x = x * v;
    let v = !x;
    let x = {
        let x = x + v;
        let v = !x;
        x * v
    };
    for x in [1.0, 2.0] {
        let _unused: f64 = x;
    }
    x + v
}

#[test]
fn shadowed_variables_keep_their_values() {
    // v = 2, x = 4, v = 4, x = 8 · 8
    assert_eq!(value(&shadowed(Layer::constant(2.0))), 68.0);
}
