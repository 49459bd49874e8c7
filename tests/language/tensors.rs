use dl::prelude::*;

#[differentiable]
fn gated(x: &NdLayer, left: &NdWeight, right: &NdWeight, scores: (Layer<f32>, Layer<f32>)) -> NdLayer {
    let (a, b) = !scores;
    if a > b { scores.0 * x.matmul(left) } else { scores.1 * x.matmul(right) }
}

#[test]
fn tensor_layers_are_selected_by_scalar_scores() {
    let x = Nd::from([[1.0_f32, 2.0]]).layer();
    let (left, right) = (Weight::new(Nd::from([[1.0_f32], [1.0]])), Weight::new(Nd::from([[2.0_f32], [0.0]])));
    let y = gated(&x, &left, &right, (Layer::constant(2.0), Layer::constant(1.0)));
    assert_eq!(y.predict().wait().unwrap(), Nd::from([[6.0_f32]]));
}
