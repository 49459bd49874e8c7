//! Operators in functions that are generic over the element type: `A: Element` is the only bound.

#![allow(clippy::op_ref, reason = "operators with borrowed numbers are tested, too")]

use dl_core::{Differentiable, Do, Layer, Weight, max, pow};
use dl_nd::{CompareOps, Element, MaskOps, Nd, NdLayer, NdWeight, Rank, ReduceOps, where_};
use ndarray::{Ix1, Ix2};

type Matrix<A> = NdLayer<Ix2, A>;

/// `((a ∘ b) ∘ b) ∘ …` for all kinds of operands, as one layer for each operator.
fn tensors<A: Element, D: Rank>(a: &NdWeight<D, A>, b: &NdLayer<D, A>) -> Vec<NdLayer<D, A>> {
    let (plain, layer) = (a.value(), a.layer());
    vec![
        &layer + b + b.clone() + &plain + plain.clone() + a + a.clone(),
        &layer - b - b.clone() - &plain - plain.clone() - a - a.clone(),
        &layer * b * b.clone() * &plain * plain.clone() * a * a.clone(),
        &layer / b / b.clone() / &plain / plain.clone() / a / a.clone(),
        a + b,
        a.clone() - b,
        &plain * b,
        plain / b,
        -&layer + -layer + -a + -b,
    ]
}

/// Numbers on the right of a matrix, and number layers and weights on its left.
fn numbers<A: Element>(x: &Matrix<A>, a: A, w: &Weight<A>) -> Vec<Matrix<A>> {
    let layer = w.layer();
    vec![
        x + a + &layer + layer.clone() + w + w.clone(),
        x - a - &layer - layer.clone() - w - w.clone(),
        x * a * &layer * layer.clone() * w * w.clone(),
        x / a / &layer / layer.clone() / w / w.clone(),
        x % &a,
        &layer + x,
        layer.clone() - x,
        w * x.clone(),
        w.clone() / x,
        Layer::constant(a) - x,
        max(x, a) + max(&layer, x) + x.max(w),
        pow(x, &layer),
    ]
}

/// Number layers with one another, and with plain numbers on their right.
fn scalars<A: Element>(a: A, w: &Weight<A>) -> Vec<Layer<A>> {
    let x = w.layer();
    vec![&x + a + &x + x.clone() + w, &x - &a - w.clone(), w * a * &x, x.clone() / w / a, -&x + -w, max(&x, a), w % a]
}

/// A vector and a matrix, whose ranks differ.
fn broadcast<A: Element>(x: &Matrix<A>, bias: &NdWeight<Ix1, A>) -> Matrix<A> {
    (x + bias) * bias.exp() - bias / x
}

/// Comparisons with numbers and selections of numbers.
fn selections<A: Element>(x: &Matrix<A>, a: A, w: &Weight<A>) -> Vec<Matrix<A>> {
    let layer = w.layer();
    let large = x.greater(a).logical_or(x.greater(&layer)).logical_or(x.equal(w));
    vec![where_(&large, x, a), where_(x.less(w.clone()), &layer, x), where_(&large, layer.clone(), w)]
}

fn check<A: Element>() {
    let number = |x: f64| A::of(x);
    let matrix = |x: f64| Nd::<A, Ix2>::full([2, 3], number(x));
    let (a, b) = (Weight::new(matrix(3.0)), Layer::constant(matrix(2.0)));
    let found = Do::predict(tensors(&a, &b)).wait().unwrap();
    let expected = [19.0, -13.0, 972.0, 1.0 / 108.0, 5.0, 1.0, 6.0, 1.5, -11.0];
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(found.view().iter().all(|&x| (x - number(expected)).abs() < number(1e-6)), "{found}: {expected}");
    }

    let w = Weight::new(number(2.0));
    let found = Do::predict(numbers(&a.layer(), number(4.0), &w)).wait().unwrap();
    let expected = [15.0, -9.0, 192.0, 3.0 / 64.0, 3.0, 5.0, -1.0, 6.0, 2.0 / 3.0, 1.0, 10.0, 9.0];
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(found.view().iter().all(|&x| (x - number(expected)).abs() < number(1e-5)), "{found}: {expected}");
    }

    let found = Do::predict(scalars(number(4.0), &w)).wait().unwrap();
    assert_eq!(found, [12.0, -4.0, 16.0, 0.25, -4.0, 4.0, 2.0].map(number));

    let found = Do::predict(selections(&a.layer(), number(4.0), &w)).wait().unwrap();
    for (found, expected) in found.into_iter().zip([3.0, 3.0, 2.0]) {
        assert!(found.view().iter().all(|&x| x == number(expected)), "{found}: {expected}");
    }

    let bias = Weight::new(Nd::<A, Ix1>::full([3], number(0.0)));
    let y = broadcast(&a.layer(), &bias).sum();
    assert_eq!(y.predict().wait().unwrap(), number(18.0));
    let slope = y.gradient(&bias).predict().wait().unwrap();
    // for each of the two rows: 1 + 3 - 1/3
    assert!(slope.view().iter().all(|&x| (x - number(22.0 / 3.0)).abs() < number(1e-6)), "{slope}");
}

#[test]
fn operators_with_generic_element_type_compute_same_values() {
    check::<f32>();
    check::<f64>();
}
