//! Minimal programs: training of one weight, with learning rate 1.

use dl::prelude::*;

fn trained(times: usize, loss: impl Fn(&Weight<f32>) -> Layer<f32>) -> (f32, f32) {
    let w = Weight::new(1.0_f32);
    let mut last = f32::NAN;
    for _ in 0..times {
        last = loss(&w).train(&Sgd::new(1.0)).wait().unwrap();
    }
    let _ = last;
    (w.value(), loss(&w).predict().wait().unwrap())
}

#[test]
fn weight_plus_constant_is_trained() {
    let x = 1.0_f32;
    assert_eq!(trained(5, |w| 6.7 + x + w + 5.5).0, -4.0);
}

#[test]
fn gradient_of_minimum_flows_to_smaller_operand() {
    assert_eq!(trained(4, |w| 5.0 - min(5.0, w)), (5.0, 0.0));
}

#[test]
fn gradient_of_maximum_flows_to_larger_operand() {
    assert_eq!(trained(9, |w| 10.0 - max(0.0, w)), (10.0, 0.0));
}

#[test]
fn gradient_of_absolute_value_has_sign_of_operand() {
    assert_eq!(trained(4, |w| 5.0 - w.abs()), (5.0, 0.0));
}

#[differentiable]
fn one_bang(x: f32, w: &Weight<f32>) -> Layer<f32> {
    6.7 + !(x + w) + w + 5.5
}

#[test]
fn bang_stops_gradient() {
    assert_eq!(trained(5, |w| one_bang(1.0, w)).0, -4.0);
}

#[differentiable]
fn three_bangs(x: f32, w: &Weight<f32>) -> Layer<f32> {
    let (a, b, c) = !(x + w, 2.0, w);
    6.7 + a + b + c + w + 5.5
}

#[test]
fn bang_on_tuple_stops_gradient() {
    assert_eq!(trained(5, |w| three_bangs(1.0, w)).0, -4.0);
}
