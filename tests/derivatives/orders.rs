//! Higher-order derivatives against closed forms.

use dl::prelude::*;

/// The value, then the first `n` derivatives with respect to `w`.
fn derivatives(y: Layer<f64>, w: &Weight<f64>, n: usize) -> Vec<f64> {
    let orders = std::iter::successors(Some(y), |y| Some(y.gradient(w)));
    orders.take(n + 1).map(|y| y.predict().wait().unwrap()).collect()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found} should be {expected}");
    }
}

#[test]
fn four_derivatives_of_tanh_match_closed_forms() {
    for x in [-3.0, -1.3, -0.2, 0.0, 0.4, 2.0_f64] {
        let w = Weight::new(x);
        let t = x.tanh();
        let s = 1.0 - t * t;
        let closed = [t, s, -2.0 * t * s, s * (6.0 * t * t - 2.0), s * (16.0 * t - 24.0 * t.powi(3))];
        assert_close(&derivatives(w.tanh(), &w, 4), &closed);
    }
}

#[test]
fn four_derivatives_of_x_to_the_x_match_closed_forms() {
    for x in [0.3, 1.0, 1.7, 2.5_f64] {
        let w = Weight::new(x);
        // with L = ln x + 1: f' = fL, f'' = f(L² + 1/x), f''' = f(L³ + 3L/x − 1/x²), f'''' = f(L⁴ +
        // 6L²/x − 4L/x² + 3/x² + 2/x³)
        let (f, l) = (x.powf(x), x.ln() + 1.0);
        let closed = [
            f,
            f * l,
            f * (l * l + 1.0 / x),
            f * (l.powi(3) + 3.0 * l / x - 1.0 / (x * x)),
            f * (l.powi(4) + 6.0 * l * l / x - 4.0 * l / (x * x) + 3.0 / (x * x) + 2.0 / x.powi(3)),
        ];
        assert_close(&derivatives(pow(&w, &w), &w, 4), &closed);
    }
}

#[test]
fn hessian_of_rosenbrock_function_is_exact() {
    for (x, y) in [(1.0_f64, 1.0_f64), (-1.2, 1.0), (0.0, 0.0), (3.5, -2.25)] {
        let at = [Weight::new(x), Weight::new(y)];
        let [a, b] = &at;
        let f = (1.0 - a).square() + 100.0 * (b - a.square()).square();
        let hessian = f.gradients(&at).map(|slope| slope.gradients(&at).map(|second| second.predict().wait().unwrap()));
        let closed = [[2.0 - 400.0 * (y - 3.0 * x * x), -400.0 * x], [-400.0 * x, 200.0]];
        for (found, expected) in hessian.iter().zip(&closed) {
            assert_close(found, expected);
        }
        let direction = [0.5, -2.0];
        let along = f.hvp(&at, &direction.map(Layer::constant)).map(|part| part.predict().wait().unwrap());
        assert_close(&along, &closed.map(|row| row[0] * direction[0] + row[1] * direction[1]));
    }
}

#[test]
fn higher_derivatives_through_loop_and_branch() {
    // the first power of w above 100: w⁴ for w = 4
    #[differentiable]
    fn past(w: &Weight<f64>) -> Layer<f64> {
        let mut y = w.layer();
        while !y <= 100.0 {
            y = y * w;
        }
        if !y > 200.0 { y } else { -y }
    }
    let w = Weight::new(4.0);
    assert_eq!(derivatives(past(&w), &w, 5), [256.0, 256.0, 192.0, 96.0, 24.0, 0.0]);
    w.set(5.0); // 125: w³, and the other branch
    assert_eq!(derivatives(past(&w), &w, 3), [-125.0, -75.0, -30.0, -6.0]);
}

#[test]
fn second_derivative_can_be_trained_on() {
    let w = Weight::new(0.5_f64);
    // (d²/dw² w⁴)² = 144 w⁴: its derivative is 576 w³
    let penalty = w.square().square().gradient(&w).gradient(&w).square();
    penalty.train(&Sgd::new(0.01)).wait().unwrap();
    assert!((w.value() - (0.5 - 0.01 * 576.0 * 0.125)).abs() < 1e-12);
}
