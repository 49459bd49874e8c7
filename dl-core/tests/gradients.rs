//! Gradient check: the first and second derivatives of every scalar operation against finite
//! differences in `f64`, with its rule evaluated in numbers and in layers.

use dl_core::{Binary, Differentiable, Layer, Pointwise, Unary, Weight, pow};
use dl_optim::Sgd;

/// Points in the domain of an operation, away from its kinks.
fn points(op: Unary) -> &'static [f64] {
    match op {
        Unary::Ln | Unary::Sqrt | Unary::Rsqrt | Unary::Recip | Unary::Entr => &[0.3, 1.0, 4.0, 7.5],
        Unary::Asin | Unary::Acos | Unary::Atanh => &[-0.8, -0.1, 0.3, 0.7],
        Unary::Acosh => &[1.2, 2.0, 7.5],
        Unary::Log1p => &[-0.6, -0.1, 0.3, 1.0, 4.0],
        _ => &[-2.3, -0.4, 0.3, 1.1, 4.2],
    }
}

fn pairs(op: Binary) -> &'static [(f64, f64)] {
    match op {
        Binary::Pow | Binary::PowSlope | Binary::PowLog => &[(0.5, 0.7), (2.0, 3.0), (1.3, -2.2), (4.0, 0.5)],
        Binary::Xlogy => &[(0.5, 0.7), (-2.0, 3.0), (1.3, 2.2)],
        _ => &[(0.5, -0.7), (-2.0, 3.0), (1.3, 1.2), (-4.0, -0.55)],
    }
}

fn central(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-6 * x.abs().max(1.0);
    (f(x + h) - f(x - h)) / (2.0 * h)
}

#[track_caller]
fn close(what: &str, ours: f64, truth: f64) {
    assert!((ours - truth).abs() <= 1e-6 * truth.abs().max(1.0), "{what}: {ours} should be {truth}");
}

/// The derivative that a training step uses: the rule evaluated in numbers.
fn trained(loss: &Layer<f64>, w: &Weight<f64>) -> f64 {
    let before = w.value();
    loss.train(&Sgd::new(1.0)).wait().unwrap();
    let delta = before - w.value();
    w.set(before);
    delta
}

#[test]
fn unary_gradients_match_finite_differences() {
    for &op in Unary::ALL {
        for &x in points(op) {
            let w = Weight::new(x);
            let y = f64::unary(op, &w.layer());
            let name = format!("{} at {x}", op.name());
            assert_eq!(y.predict().wait().unwrap(), op.value(x), "{name}");
            let slope = central(|x| op.value(x), x);
            close(&name, trained(&y, &w), slope);
            let derivative = y.gradient(&w);
            close(&name, derivative.predict().wait().unwrap(), slope);
            let at = |x| {
                w.set(x);
                derivative.predict().wait().unwrap()
            };
            let curvature = central(at, x);
            w.set(x);
            close(&format!("second derivative of {name}"), trained(&derivative, &w), curvature);
        }
    }
}

#[test]
fn binary_gradients_match_finite_differences() {
    for &op in Binary::ALL {
        for &(a, b) in pairs(op) {
            let (wa, wb) = (Weight::new(a), Weight::new(b));
            let trained = |loss: &Layer<f64>, w: &Weight<f64>| {
                let delta = trained(loss, w);
                // the step changed both weights
                wa.set(a);
                wb.set(b);
                delta
            };
            let y = f64::binary(op, &wa.layer(), &wb.layer());
            let name = format!("{} at {a}, {b}", op.name());
            assert_eq!(y.predict().wait().unwrap(), op.value(a, b), "{name}");
            let slopes = [central(|a| op.value(a, b), a), central(|b| op.value(a, b), b)];
            for (w, slope) in [&wa, &wb].into_iter().zip(slopes) {
                close(&name, trained(&y, w), slope);
                let derivative = y.gradient(w);
                close(&name, derivative.predict().wait().unwrap(), slope);
                for v in [&wa, &wb] {
                    let before = v.value();
                    let at = |x| {
                        v.set(x);
                        derivative.predict().wait().unwrap()
                    };
                    let curvature = central(at, before);
                    v.set(before);
                    close(&format!("second derivative of {name}"), trained(&derivative, v), curvature);
                }
            }
            for (w, layer) in
                [(&wa, f64::with_number(op, &wa.layer(), b, false)), (&wb, f64::with_number(op, &wb.layer(), a, true))]
            {
                assert_eq!(layer.predict().wait().unwrap(), op.value(a, b), "{name}");
                assert_eq!(trained(&layer, w), trained(&y, w), "{name} with a number");
                assert_eq!(trained(&layer.gradient(w), w), trained(&y.gradient(w), w), "{name} with a number, twice");
            }
        }
    }
}

#[test]
fn max_of_equal_operands_shares_gradient() {
    let (a, b) = (Weight::new(2.0), Weight::new(2.0));
    dl_core::max(&a, &b).train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!((a.value(), b.value()), (1.5, 1.5));
}

#[test]
fn sqrt_of_four_has_gradient_one_quarter() {
    let w = Weight::new(4.0_f32);
    w.sqrt().train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(w.value(), 3.75);
}

/// Reference values: `scipy.special.expit`, `math.erfc`, and limits.
#[test]
fn activations_at_extreme_arguments_stay_finite() {
    assert_eq!(Unary::Sigmoid.value(-745.0_f64), 5e-324);
    assert_eq!(Unary::Sigmoid.value(800.0_f64), 1.0);
    assert_eq!(Unary::Softplus.value(1000.0_f64), 1000.0);
    assert_eq!(Unary::Softplus.value(-1000.0_f64), 0.0);
    close("gelu, at −10, relatively", Unary::Gelu.value(-10.0_f64) / -7.619853024160527e-23, 1.0);
    close("silu, at −700, relatively", Unary::Silu.value(-700.0_f64) / (-700.0 * (-700.0_f64).exp()), 1.0);
}

/// The first four derivatives of `xⁿ`, at 0 and elsewhere.
#[test]
fn higher_derivatives_of_pow_at_zero_are_exact() {
    for exponent in [0.0, 1.0, 2.0, 3.0, 4.0] {
        for x in [0.0_f64, -1.5] {
            let (w, n) = (Weight::new(x), Weight::new(exponent));
            n.freeze();
            for mut power in [w.pow(exponent), w.pow(&n)] {
                let (mut factor, mut rest) = (1.0, exponent);
                for order in 0..5 {
                    let truth = if factor == 0.0 { 0.0 } else { factor * x.powf(rest) };
                    let name = format!("derivative {order} of {x} to the power of {exponent}");
                    close(&name, power.predict().wait().unwrap(), truth);
                    (factor, rest) = (factor * rest, rest - 1.0);
                    let truth = if factor == 0.0 { 0.0 } else { factor * x.powf(rest) };
                    close(&name, trained(&power, &w), truth);
                    power = power.gradient(&w);
                }
            }
        }
    }
}

#[test]
fn pow_of_zero_derivative_in_exponent_is_limit() {
    for (exponent, truth) in [(0.0, 0.0), (0.5, 0.0), (2.0, 0.0), (-1.0, f64::NEG_INFINITY)] {
        let n = Weight::new(exponent);
        let slope = pow(0.0, &n).gradient(&n);
        assert_eq!(slope.predict().wait().unwrap(), truth);
    }
    let (x, n) = (Weight::new(0.0), Weight::new(2.0));
    let power = x.pow(&n);
    assert_eq!(power.gradient(&x).gradient(&n).predict().wait().unwrap(), 0.0);
    assert_eq!(power.gradient(&n).gradient(&x).predict().wait().unwrap(), 0.0);
    assert_eq!(power.gradient(&n).gradient(&n).predict().wait().unwrap(), 0.0);
}

#[test]
fn derivatives_at_kinks_follow_conventions() {
    let w = Weight::new(0.0);
    assert_eq!(trained(&w.leaky_relu(0.25), &w), 0.25);
    assert_eq!(trained(&w.elu(0.25), &w), 0.25);
    assert_eq!(trained(&w.clamp(0.0, 1.0), &w), 0.0);
    assert_eq!(trained(&w.clamp(-1.0, 0.0), &w), 0.0);
    assert_eq!(trained(&w.clamp(-1.0, 1.0), &w), 1.0);
    assert_eq!(trained(&w.clamp(1.0, -1.0), &w), 0.0);
}

#[test]
fn remainder_has_sign_of_divisor() {
    let w = Weight::new(-7.0_f64);
    assert_eq!((&w % 3.0).predict().wait().unwrap(), 2.0);
    assert_eq!((5.0 % &w).predict().wait().unwrap(), -2.0);
    // floor(1.0 / 0.1) is 10 in `f64`, but 0.1 is rounded up, so the exact floor is 9
    let n = Weight::new(0.1);
    assert_eq!(trained(&(1.0 % &n), &n), -9.0);
}

#[test]
fn vjp_with_constant_cotangent_is_differentiable_in_it() {
    let (w, c) = (Weight::new(3.0), Layer::constant(2.0));
    // the cotangent of the weight is `c` itself, and its derivative with respect to `c` is 1
    assert_eq!(w.layer().vjp(&w, &c).gradient(&c).predict().wait().unwrap(), 1.0);
    assert_eq!((&w + 5.0).vjp(&w, &c).gradient(&c).predict().wait().unwrap(), 1.0);
}
