//! Promise 11: the gradient of a layer is a layer: it can be evaluated, trained on, and
//! differentiated.

use dl::{Differentiable, Layer, Sgd, Weight};

#[test]
fn four_derivatives_of_tanh() {
    for x in [-1.3, -0.2, 0.0, 0.4, 2.0_f64] {
        let w = Weight::new(x);
        let mut y = w.tanh();
        let mut derivatives = Vec::new();
        for _ in 0..4 {
            y = y.gradient(&w);
            derivatives.push(y.predict().wait().unwrap());
        }
        let t = x.tanh();
        let s = 1.0 - t * t;
        let closed_forms = [s, -2.0 * t * s, s * (6.0 * t * t - 2.0), s * (16.0 * t - 24.0 * t.powi(3))];
        for (ours, truth) in derivatives.iter().zip(closed_forms) {
            assert!((ours - truth).abs() < 1e-12, "{derivatives:?} should be {closed_forms:?}");
        }
    }
}

#[test]
fn gradient_can_be_trained_on() {
    // minimizes (d/dw w³)² = 9w⁴; its derivative is 36w³
    let w = Weight::new(0.5);
    let penalty = (&w * &w * &w).gradient(&w).square();
    penalty.train(&Sgd::new(0.1)).wait().unwrap();
    let expected: f64 = 0.5 - 0.1 * 36.0 * 0.125;
    assert!((w.value() - expected).abs() < 1e-12);
}

#[test]
fn gradient_follows_taken_path() {
    let w = Weight::new(-2.0);
    let held = w.clone();
    let y = Layer::dynamic(move || {
        let w = held.clone();
        async move { if w.layer().extract().await? > 0.0 { Ok(w.layer()) } else { Ok(&w * &w) } }
    });
    assert_eq!(y.gradient(&w).predict().wait().unwrap(), -4.0);
    assert_eq!(y.gradient(&w).gradient(&w).predict().wait().unwrap(), 2.0);
}

#[test]
fn gradient_of_unrelated_weight_is_zero() {
    let (w, stranger) = (Weight::new(2.0), Weight::new(3.0));
    assert_eq!((&w * 2.0).gradient(&stranger).predict().wait().unwrap(), 0.0);
}
