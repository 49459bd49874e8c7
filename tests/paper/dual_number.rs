//! `DualNumber` and its arithmetic: forward-mode differentiation of numbers.

use dl::prelude::*;
use dl::{Algebra, Dual, Term};

/// The listings of the paper, verbatim.
mod listings {
    type Data = f64;
    type PartialDelta = f64;

    // DualNumber
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(super) struct DualNumber {
        pub(super) data: Data,
        pub(super) delta: PartialDelta,
    }

    // dualArithmetic
    impl DualNumber {
        pub(super) fn plus(left: DualNumber, right: DualNumber) -> DualNumber {
            DualNumber { data: left.data + right.data, delta: left.delta + right.delta }
        }

        pub(super) fn multiply(left: DualNumber, right: DualNumber) -> DualNumber {
            DualNumber { data: left.data * right.data, delta: left.data * right.delta + right.data * left.delta }
        }
    }
}

use listings::DualNumber;

#[test]
fn dual_arithmetic_matches_paper() {
    let numbers = [-2.0, 0.0, 0.5, 3.0];
    for (left, right) in numbers.into_iter().flat_map(|left| numbers.map(|right| (left, right))) {
        let (a, b) = (Dual::new(left, 1.5), Dual::new(right, -4.0));
        let [left, right] = [a, b].map(|dual| DualNumber { data: dual.value(), delta: dual.tangent() });
        let same = |ours: Dual<f64>, theirs: DualNumber| {
            assert_eq!((ours.value(), ours.tangent()), (theirs.data, theirs.delta));
        };
        same(a + b, DualNumber::plus(left, right));
        same(a * b, DualNumber::multiply(left, right));
    }
}

/// `computationalTree`, generic in the algebra.
fn computational_tree<A: Algebra>(x: &Term<A>, w0: &Term<A>, w1: &Term<A>) -> Term<A> {
    let y0 = x * w0;
    y0 * w1
}

#[test]
fn computational_tree_agrees_in_all_algebras() {
    let (x, w0, w1) = (3.0, 0.5, -2.0);
    assert_eq!(computational_tree(&Term(x), &Term(w0), &Term(w1)).0, -3.0);

    // a dual number has one derivative: one evaluation per variable
    let constant = |number: f64| Term(Dual::constant(number));
    let variable = |number: f64| Term(Dual::variable(number));
    let by_w0 = computational_tree(&constant(x), &variable(w0), &constant(w1)).0.tangent();
    let by_w1 = computational_tree(&constant(x), &constant(w0), &variable(w1)).0.tangent();

    // layers: all derivatives in one backward
    let weights = [w0, w1].map(Weight::new);
    let [v0, v1] = &weights;
    let layer = computational_tree(&Term(Layer::constant(x)), &Term(v0.layer()), &Term(v1.layer())).0;
    let gradients = layer.gradients(&weights).map(|gradient| gradient.predict().wait().unwrap());
    assert_eq!(gradients, [by_w0, by_w1]);

    // forward mode of layers, from the same rules
    let along = layer.jvp(&weights, &[1.0, 10.0].map(Layer::constant)).predict().wait().unwrap();
    assert_eq!(along, by_w0 + 10.0 * by_w1);
}

#[test]
fn array_tangents_are_layers() {
    let x = Weight::new(Nd::from([1.0_f64, 2.0, 3.0]));
    let cube = Dual::variable(x.layer());
    let cube = &cube * &cube * &cube;
    assert_eq!(cube.value().predict().wait().unwrap(), Nd::from([1.0, 8.0, 27.0]));
    assert_eq!(cube.tangent().predict().wait().unwrap(), Nd::from([3.0, 12.0, 27.0]));
}
