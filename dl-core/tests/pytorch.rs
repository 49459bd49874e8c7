//! Pointwise operations against PyTorch: values and first derivatives, in `f64` and `f32`, with the
//! rules evaluated in numbers and in layers. `reference/pointwise.py` writes the reference.
//!
//! Intended differences:
//!
//! - `sign` of NaN is NaN, as in NumPy, where PyTorch gives 0;
//! - `gelu`, `gelu_tanh` and `silu` at −∞ are 0, their limit, where PyTorch gives NaN.
//!
//! Derivatives are not compared where PyTorch's value or derivative is NaN.

use dl_core::{Binary, Data, Differentiable, Number, Pointwise, Term, Trainable, Unary, Weight};

/// A line of the reference.
struct Known {
    name: &'static str,
    operands: (f64, Option<f64>),
    value: f64,
    derivatives: [Option<f64>; 2],
}

fn reference() -> Vec<Known> {
    include_str!("reference/pointwise.csv").lines().map(known).collect()
}

fn known(line: &'static str) -> Known {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |field: usize| Some(fields[field]).filter(|it| !it.is_empty()).map(|it| it.parse().expect("a number"));
    Known {
        name: fields[0],
        operands: (number(1).expect("an operand"), number(2)),
        value: number(3).expect("a value"),
        derivatives: [number(4), number(5)],
    }
}

/// Whether a number is near the true one, after rounding that to the format.
fn near<N: Number>(ours: N, truth: f64, tolerance: f64) -> bool {
    let truth = N::of(truth);
    ours == truth
        || ours.is_nan() && truth.is_nan()
        || (ours - truth).abs() <= N::of(tolerance) * truth.abs().max(N::one()) && truth.is_finite()
}

fn check<N: Number + Pointwise + Trainable + Data<Delta = N>>(known: &Known, tolerance: f64) {
    let Known { name, operands, .. } = known;
    let what = format!("{name} of {operands:?} in {}", std::any::type_name::<N>());
    let a = N::of(operands.0);
    let left = Weight::new(a);
    let one = Term(N::of(1.0));
    let (value, layer, numeric, right);
    if let Some(b) = operands.1.map(N::of) {
        let op = *Binary::ALL.iter().find(|op| op.name() == *name).expect("an operation");
        right = Some(Weight::new(b));
        value = op.value(a, b);
        layer = N::binary(op, &left.layer(), &right.as_ref().expect("a weight").layer());
        let (da, db) = op.pullbacks([&Term(a), &Term(b), &Term(value), &one], (true, true));
        numeric = [da, db];
    } else {
        let op = *Unary::ALL.iter().find(|op| op.name() == *name).expect("an operation");
        right = None;
        value = op.value(a);
        layer = N::unary(op, &left.layer());
        numeric = [op.pullback(&Term(a), &Term(value), &one), None];
    }
    let truth = match *name {
        "sign" if a.is_nan() => f64::NAN,
        "gelu" | "gelu_tanh" | "silu" if operands.0 == f64::NEG_INFINITY => 0.0,
        _ => known.value,
    };
    assert!(near(value, truth, tolerance), "{what}: {value} should be {truth}");
    let predicted = layer.predict().wait().unwrap();
    assert!(predicted == value || predicted.is_nan() && value.is_nan(), "{what}: {predicted} should be {value}");

    for (place, (numeric, truth)) in numeric.into_iter().zip(known.derivatives).enumerate() {
        let Some(truth) = truth.filter(|truth| !truth.is_nan() && !known.value.is_nan()) else { continue };
        let Some(weight) = [Some(&left), right.as_ref()][place] else { continue };
        let numeric = numeric.map_or(N::of(0.0), |delta| delta.0);
        assert!(near(numeric, truth, tolerance), "derivative {place} of {what}: {numeric} should be {truth}");
        let lazy = layer.gradient(weight).predict().wait().unwrap();
        assert!(lazy == numeric, "derivative {place} of {what}: {lazy} should be {numeric}");
    }
}

#[test]
fn operations_agree_with_pytorch() {
    for known in reference() {
        check::<f64>(&known, 1e-10);
        check::<f32>(&known, 1e-5);
    }
}

#[test]
fn reference_covers_every_operation_with_pytorch_name() {
    let reference = reference();
    let points = |name| reference.iter().filter(|known| known.name == name).count();
    for op in Unary::ALL {
        assert!(op.torch().is_none() || points(op.name()) > 20, "{}", op.name());
    }
    for op in Binary::ALL {
        assert!(op.torch().is_none() || points(op.name()) > 40, "{}", op.name());
    }
}
