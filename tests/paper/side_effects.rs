//! `UpdateWeights` … `computationalTree`: side effects form a vector space.

use dl::prelude::*;

fn tree(x: f64, w0: &Weight<f64>, w1: &Weight<f64>) -> Layer<f64> {
    let y0 = x * w0;
    y0 * w1
}

fn effects(y: &Layer<f64>, delta: f64) -> SideEffects {
    y.forward().wait().unwrap().backward(Do::now(delta))
}

/// The change of the weights in a step with learning rate 1.
fn deltas(weights: [&Weight<f64>; 2], effects: SideEffects) -> [f64; 2] {
    let before = weights.map(Weight::value);
    effects.step(&Sgd::new(1.0)).wait().unwrap();
    let after = weights.map(Weight::value);
    weights.into_iter().zip(before).for_each(|(w, value)| w.set(value));
    [before[0] - after[0], before[1] - after[1]]
}

#[test]
fn computational_tree_has_expected_deltas() {
    let (w0, w1) = (Weight::new(2.0), Weight::new(5.0));
    assert_eq!(deltas([&w0, &w1], effects(&tree(3.0, &w0, &w1), 1.0)), [15.0, 6.0]);
}

/// (f₀ + f₁)(x) = f₀(x) + f₁(x)
#[test]
fn addition_of_side_effects_adds_deltas() {
    let (w0, w1) = (Weight::new(2.0), Weight::new(5.0));
    let (f0, f1) = (tree(3.0, &w0, &w1), (&w0 * &w0) + 4.0 * &w1);
    let sum = deltas([&w0, &w1], effects(&f0, 1.0) + effects(&f1, 1.0));
    let (d0, d1) = (deltas([&w0, &w1], effects(&f0, 1.0)), deltas([&w0, &w1], effects(&f1, 1.0)));
    assert_eq!(sum, [d0[0] + d1[0], d0[1] + d1[1]]);
    assert_eq!(sum, deltas([&w0, &w1], effects(&(&f0 + &f1), 1.0)));
}

/// (x₀f)(x₁) = f(x₀x₁)
#[test]
fn scaling_of_side_effects_scales_deltas() {
    let (w0, w1) = (Weight::new(2.0), Weight::new(5.0));
    let f = tree(3.0, &w0, &w1);
    assert_eq!(deltas([&w0, &w1], 7.0 * effects(&f, 0.5)), deltas([&w0, &w1], effects(&f, 3.5)));
}
