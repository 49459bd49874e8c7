use dl::prelude::*;

#[differentiable]
fn chosen(x: impl NdExpression, w: &impl NdExpression) -> impl NdExpression {
    let total = !x.sum();
    if total > 10.0 {
        return w.layer();
    }
    x * w
}

#[differentiable]
fn built(x: impl NdExpression, w: impl NdExpression) -> impl NdExpression {
    x + w
}

#[test]
fn opaque_results_take_layers_weights_and_tensors() {
    let (x, w) = (Nd::from([[1.0_f32, 2.0]]), Weight::new(Nd::from([[3.0_f32, 4.0]])));
    assert_eq!(chosen(x.clone(), &w).predict().wait().unwrap(), Nd::from([[3.0_f32, 8.0]]));
    assert_eq!(chosen(&w * 10.0_f32, &x).predict().wait().unwrap(), x);
    assert_eq!(built(x, &w).predict().wait().unwrap(), Nd::from([[4.0_f32, 6.0]]));
}
