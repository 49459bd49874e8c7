use super::*;
use crate::formula::Operation;
use crate::nd::Nd;
use ndarray::{Dim, Dimension, Ix1};
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

#[test]
fn results_begin_with_a_line_of_the_cache_and_their_memory_comes_back() {
    fn check<A: Element>() {
        let len = 12_345;
        let x = Nd::full(Dim(len), A::of(0.5));
        let computed = || {
            let sum = Operation::Binary(Binary::Add, x.clone(), x.clone()).of_shape(Dim(len));
            let elements = compute(sum.formula().expect("large tensors are written down"));
            assert!(elements.iter().all(|&found| found == A::of(1.0)));
            let place = elements.as_ptr();
            assert_eq!((place.align_offset(LINE_BYTES), elements.len()), (0, len));
            (place, elements)
        };
        let (place, elements) = computed();
        drop(elements);
        let (again, elements) = computed();
        assert_eq!(place, again, "it takes the memory of the one before");
        // nor does it matter who takes it
        drop(elements);
        let buffer: Vec<A> = buffers::take(len);
        assert!((0..LINE_BYTES).contains(&(place.addr() - buffer.as_ptr().addr())));
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn small_tensors_are_broadcast_as_by_a_program() {
    let shapes: [&[usize]; 11] =
        [&[], &[1], &[3], &[1, 3], &[2, 1], &[2, 3], &[4, 1, 1], &[4, 2, 1], &[4, 1, 3], &[1, 2, 3], &[4, 2, 3]];
    let tensor = |shape: &[usize], first: f32| {
        let count = shape.iter().product();
        let elements: Vec<f32> = (0..count).map(|i: usize| first + i as f32).collect();
        Nd::from(ndarray::ArrayD::from_shape_vec(shape, elements).expect("as many elements"))
    };
    for a in shapes {
        for b in shapes {
            let (a, b) = (tensor(a, 1.5), tensor(b, -0.25));
            let shape =
                crate::broadcast::broadcast_shape::<ndarray::IxDyn>(a.shape(), b.shape()).expect("they broadcast");
            let [left, right] = [&a, &b].map(|x| (x.0.as_slice().expect("in row-major order"), x.shape()));
            let found = broadcast(Binary::Div, left, right, shape.slice());
            let (program, _) =
                Program::of(&[&Formula::new(shape, 1, 0.5, Operation::Binary(Binary::Div, a.clone(), b.clone()))]);
            let mut results = [program.room()];
            program.run(&mut results, false);
            let start = lined_up(&results[0]);
            assert_eq!(found, results[0][start..start + found.len()], "{:?} and {:?}", a.shape(), b.shape());
        }
    }
    assert_eq!(broadcast(Binary::Add, (&[1.0_f32], &[1, 1]), (&[], &[0, 1]), &[0, 1]), []);
}
