//! User-defined pullback rules of functions.

use dl::prelude::*;
use dl::with_rule;

#[test]
fn straight_through_estimator_passes_delta() {
    let w = Weight::new(Nd::from([0.25, 1.75, -0.75]));
    let rounded = w.layer().with_rule(|x| (x + 0.5).floor(), |_, _, delta| delta.clone());
    assert_eq!(rounded.predict().wait().unwrap(), Nd::from([0.0, 2.0, -1.0]));
    let loss = rounded.square().sum();
    assert_eq!(loss.gradient(&w).predict().wait().unwrap(), Nd::from([0.0, 4.0, -2.0]));
    assert_eq!(loss.gradient(&w).gradient(&w).predict().wait().unwrap(), Nd::from([2.0, 2.0, 2.0]));
    loss.train(&Sgd::new(0.5)).wait().unwrap();
    assert_eq!(w.value(), Nd::from([0.25, -0.25, 0.25]));
}

#[test]
fn stable_rule_replaces_unstable_derivative() {
    // the derivative of ln(1 + eˣ) by its operations is 1/∞ · ∞ at 1000: a delta of 0 annihilates
    let x = Weight::new(1000.0_f64);
    let naive = |x: &Layer<f64>| (1.0 + x.exp()).ln();
    assert_eq!(naive(&x.layer()).gradient(&x).predict().wait().unwrap(), 0.0);
    let y = x.layer().with_rule(naive, |x, _, delta| delta * x.sigmoid());
    assert_eq!(y.gradient(&x).predict().wait().unwrap(), 1.0);
    x.set(0.3);
    let [first, second] = [y.gradient(&x), y.gradient(&x).gradient(&x)].map(|slope| slope.predict().wait().unwrap());
    let s = 1.0 / (1.0 + (-0.3_f64).exp());
    assert!((first - s).abs() < 1e-15 && (second - s * (1.0 - s)).abs() < 1e-15);
}

#[test]
fn rule_of_two_operands_of_different_types() {
    let (scale, x) = (Weight::new(2.0_f64), Weight::new(Nd::from([1.0, 2.0])));
    let scaled = with_rule(
        (scale.layer(), x.layer()),
        |(scale, x)| scale * x,
        |(_, x), value, delta| (None, Some(delta * value + 0.0 * x)),
    );
    let (by_scale, by_x) = scaled.gradients(&(&scale, &x));
    assert_eq!(by_scale.predict().wait().unwrap(), 0.0);
    assert_eq!(by_x.predict().wait().unwrap(), Nd::from([2.0, 4.0]));
}

#[test]
fn rule_of_function_with_bang() {
    #[differentiable]
    fn gated(x: &Layer<f64>) -> Layer<f64> {
        if !x > 0.0 { x * 2.0 } else { x * 0.0 }
    }
    let w = Weight::new(-3.0);
    // the rule lets 0.1 of the delta pass where the gate is closed
    let y = w.layer().with_rule(gated, |_, _, delta| 0.1 * delta);
    assert_eq!((y.predict().wait().unwrap(), y.gradient(&w).predict().wait().unwrap()), (0.0, 0.1));
}

#[test]
fn panic_in_rule_is_error() {
    let w = Weight::new(1.0);
    let y = w.layer().with_rule(|x| x * 2.0, |_, _, _| panic!("no rule"));
    let error = y.train(&Sgd::new(0.1)).wait().unwrap_err();
    assert!(error.to_string().contains("no rule") && error.to_string().contains("rules.rs"), "{error}");
    assert_eq!(w.value(), 1.0);
    assert_eq!(y.predict().wait().unwrap(), 2.0);
}

#[test]
fn rule_with_wrong_delta_shape_or_count_is_error() {
    let (w, v) = (Weight::new(3.0), Weight::new(Nd::from([1.0, 2.0])));
    let many = with_rule(vec![w.layer()], |x| &x[0] * &x[0], |_, _, d| vec![Some(d.clone()), Some(d.clone())]);
    for error in [many.gradient(&w).predict().wait(), many.train(&Sgd::new(0.1)).wait()] {
        let text = error.unwrap_err().to_string();
        assert!(text.contains("with_rule") && text.contains("rules.rs") && text.contains("deltas"), "{text}");
    }
    assert!(many.jvp(&w, &Layer::constant(1.0)).predict().wait().is_err());
    let other_shape = v.layer().with_rule(|x| x.clone(), |_, _, _| Layer::constant(Nd::from([1.0, 2.0, 3.0])));
    assert!(other_shape.sum().gradient(&v).predict().wait().unwrap_err().is_shape());
    assert!(other_shape.sum().train(&Sgd::new(0.1)).wait().unwrap_err().is_shape());
    let one_number = v.layer().with_rule(|x| x.clone(), |_, _, _| Layer::constant(Nd::from([1.0])));
    assert!(one_number.sum().train(&Sgd::new(0.1)).wait().is_err());
    assert_eq!(v.value(), Nd::from([1.0, 2.0]));
}

#[test]
fn stop_gradient_blocks_delta() {
    let w = Weight::new(3.0);
    let y = &w * w.layer().stop_gradient() + w.layer().detach();
    assert_eq!(y.predict().wait().unwrap(), 12.0);
    assert_eq!(y.gradient(&w).predict().wait().unwrap(), 3.0);
    let labels = Layer::constant(Nd::from([1_usize, 2]));
    assert_eq!(labels.stop_gradient().predict().wait().unwrap(), Nd::from([1, 2]));
}
