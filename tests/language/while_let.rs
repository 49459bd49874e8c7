use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn drained(xs: Vec<Layer<f64>>) -> Layer<f64> {
    let mut stack = xs;
    let mut sum = Layer::constant(0.0);
    while let Some(x) = stack.pop() {
        let v = !x;
        if v > 4.0 {
            stack.push(x * 0.5);
            continue;
        }
        sum = sum + x * v;
    }
    sum
}

#[test]
fn while_let_drains_stack_of_layers() {
    assert_eq!(value(&drained([1.0, 8.0].map(Layer::constant).into())), 17.0);
}
