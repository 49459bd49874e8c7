use super::*;
use crate::formula::Operation;
use crate::nd::Nd;
use ndarray::{Dim, Ix1};
use std::sync::Arc;

fn unary(op: Unary, x: &Nd<f32, Ix1>) -> Nd<f32, Ix1> {
    Operation::Unary(op, x.clone()).of_shape(x.dim())
}

/// What becomes of the result of `op` when its negative is computed, or summed.
fn is_kept(op: Unary, somebody_has_it: bool, summed: bool) -> bool {
    let x = Nd::full(Dim(1 << 16), 0.25_f32);
    let inner = unary(op, &x);
    let outer = unary(Unary::Neg, &inner);
    // whoever looks, without being somebody who has it
    let looked_at = Arc::downgrade(inner.formula().expect("large tensors are written down"));
    let kept = somebody_has_it.then_some(inner);
    let formula = outer.formula().expect("large tensors are written down");
    let right = -op.value(0.25_f32);
    if summed {
        let mean = sum(formula) / (1 << 16) as f32;
        assert!((mean - right).abs() < 1e-6, "{mean}, not {right}");
    } else {
        assert!(compute(formula).iter().all(|&found| found == right));
    }
    let computed = looked_at.upgrade().is_some_and(|formula| formula.computed().is_some());
    drop(kept);
    computed
}

#[test]
fn a_product_with_1_is_no_instruction() {
    let x = Nd::full(Dim(1 << 16), -0.0_f32);
    let times_one = Operation::WithNumber { op: Binary::Mul, number: 1.0, left: true, x }.of_shape(Dim(1 << 16));
    let outer = unary(Unary::Neg, &times_one);
    let formula = outer.formula().expect("large tensors are written down");
    assert_eq!(Program::of(&[formula]).0.instructions.len(), 1);
    let formula = times_one.formula().expect("large tensors are written down");
    assert!(compute(formula).iter().all(|found| found.to_bits() == (-0.0_f32).to_bits()));
}

#[test]
fn what_is_dear_is_kept_for_whoever_has_it() {
    for summed in [false, true] {
        assert!(is_kept(Unary::Tanh, true, summed));
        assert!(!is_kept(Unary::Tanh, false, summed), "nobody is going to look at it");
        assert!(!is_kept(Unary::Square, true, summed), "it is cheap");
    }
}
