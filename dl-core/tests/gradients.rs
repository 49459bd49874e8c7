//! Every scalar operation against finite differences in `f64`, in both readings of its rule, and once more for the derivative
//! of the derivative.

use dl_core::{Binary, Differentiable, Layer, Pointwise, Sgd, Unary, Weight};

/// Points in the domain of an operation, away from its kinks.
fn points(op: Unary) -> &'static [f64] {
    match op {
        Unary::Ln | Unary::Sqrt | Unary::Recip => &[0.3, 1.0, 4.0, 7.5],
        _ => &[-2.3, -0.4, 0.3, 1.0, 4.0],
    }
}

fn pairs(op: Binary) -> &'static [(f64, f64)] {
    match op {
        Binary::Pow | Binary::Xlogy => &[(0.5, 0.7), (2.0, 3.0), (1.3, 2.2), (4.0, 0.5)],
        _ => &[(0.5, -0.7), (-2.0, 3.0), (1.3, 1.2), (-4.0, -0.5)],
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

/// The derivative that a training step uses: the numeric reading.
fn trained(loss: &Layer<f64>, w: &Weight<f64>) -> f64 {
    let before = w.value();
    loss.train(&Sgd::new(1.0)).wait().unwrap();
    let delta = before - w.value();
    w.set(before);
    delta
}

#[test]
fn unary_operations() {
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
fn binary_operations() {
    for &op in Binary::ALL {
        for &(a, b) in pairs(op) {
            let (wa, wb) = (Weight::new(a), Weight::new(b));
            let y = f64::binary(op, &wa.layer(), &wb.layer());
            let name = format!("{} at {a}, {b}", op.name());
            assert_eq!(y.predict().wait().unwrap(), op.value(a, b), "{name}");
            let slopes = (central(|a| op.value(a, b), a), central(|b| op.value(a, b), b));
            let before = (a, b);
            y.train(&Sgd::new(1.0)).wait().unwrap();
            close(&name, before.0 - wa.value(), slopes.0);
            close(&name, before.1 - wb.value(), slopes.1);
            wa.set(a);
            wb.set(b);
            close(&name, y.gradient(&wa).predict().wait().unwrap(), slopes.0);
            close(&name, y.gradient(&wb).predict().wait().unwrap(), slopes.1);
        }
    }
}

#[test]
fn ties_share_the_gradient() {
    let (a, b) = (Weight::new(2.0), Weight::new(2.0));
    dl_core::max(&a, &b).train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!((a.value(), b.value()), (1.5, 1.5));
}

#[test]
fn the_square_root_of_four_has_gradient_a_quarter() {
    let w = Weight::new(4.0_f32);
    w.sqrt().train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(w.value(), 3.75);
}

/// Reference values: scipy.special.expit, and limits.
#[test]
fn extremes_stay_finite() {
    assert_eq!(Unary::Sigmoid.value(-745.0_f64), 5e-324);
    assert_eq!(Unary::Sigmoid.value(800.0_f64), 1.0);
    assert_eq!(Unary::Softplus.value(1000.0_f64), 1000.0);
    assert_eq!(Unary::Softplus.value(-1000.0_f64), 0.0);
    let zero = Weight::new(0.0);
    zero.pow(2.0).train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(zero.value(), 0.0);
}
