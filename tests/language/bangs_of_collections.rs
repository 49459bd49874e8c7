use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
#[allow(clippy::ptr_arg, reason = "the test is about it")]
fn collected(xs: &[Layer<f64>], ws: &Vec<Weight<f64>>, pair: &(Layer<f64>, bool)) -> Layer<f64> {
    let values: Vec<f64> = !xs.to_vec();
    let weights: Vec<f64> = !ws;
    let [a, b] = ![xs[0], xs[1]];
    let (c, flag, n, text) = !(pair.0, pair.1, 3, "text".to_owned());
    let nested = !((xs[0], ws[0]), [xs[1], xs[0]]);
    let sum: f64 = values.iter().chain(&weights).sum();
    if !flag && !text.is_empty() {
        xs[0] * (sum + a + b + c + n as f64 + nested.0.1 + nested.1[0])
    } else {
        xs[1] * 1.0
    }
}

#[test]
fn extraction_of_collections_returns_members() {
    let xs = [1.0, 2.0].map(Layer::constant);
    // 1 + 2 + 5 + 1 + 2 + 4 + 3 + 5 + 2
    assert_eq!(value(&collected(&xs, &vec![Weight::new(5.0)], &(Layer::constant(4.0), false))), 25.0);
}
