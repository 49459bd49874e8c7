use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn first_two(xs: &[Layer<f64>]) -> Option<Layer<f64>> {
    let (first, second) = (xs.first()?, xs.get(1)?);
    let product = first * second;
    Some(product * product)
}

#[test]
fn plain_option_function_keeps_question_mark() {
    let xs = [2.0, 3.0].map(Layer::constant);
    assert_eq!(value(&first_two(&xs).unwrap()), 36.0);
    assert!(first_two(&xs[..1]).is_none());
}
