//! Compares the gradients of every operation with central differences.

use crate::gradient_check::{check, check_twice, mixed, numbers};
use dl_core::{Binary, Differentiable, Layer, Pointwise, Unary, Weight};
use dl_nd::{Nd, Rank, ops::*};
use ndarray::{IntoDimension, IxDyn};

/// An interval on which the operation is smooth.
fn domain(op: Unary) -> (f64, f64) {
    match op {
        Unary::Ln | Unary::Sqrt | Unary::Rsqrt | Unary::Recip | Unary::Entr => (0.5, 2.0),
        Unary::Asin | Unary::Acos | Unary::Atanh => (-0.75, 0.75),
        Unary::Acosh => (1.5, 3.0),
        Unary::Log1p | Unary::Tan => (-0.5, 1.0),
        _ => (-2.0, 2.0),
    }
}

fn every_unary<S: IntoDimension + Clone>(shape: S)
where
    S::Dim: Rank,
{
    for (seed, &op) in Unary::ALL.iter().enumerate() {
        let (low, high) = domain(op);
        let w = Weight::new(numbers(shape.clone(), low, high, seed as u64));
        check_twice(op.name(), &mixed(&Nd::unary(op, &w.layer())), &w);
        // transposed: the same elements with other strides
        check(op.name(), &mixed(&Nd::unary(op, &w.t())), &w);
    }
}

#[test]
fn unary_gradients_match_differences() {
    every_unary([3, 4]);
    every_unary(5);
    every_unary([2, 1, 3]);
    every_unary(());
    every_unary([2, 0]);
}

/// An interval for the left operand on which the operation is smooth, for a right operand between
/// 0.5 and 2.
fn left_domain(op: Binary) -> (f64, f64) {
    match op {
        Binary::LeakyRelu | Binary::Elu | Binary::Kink => (-2.0, 2.0),
        _ => (0.5, 2.0),
    }
}

fn every_binary<S: IntoDimension + Clone>(left: S, right: S)
where
    S::Dim: Rank,
{
    for (seed, &op) in Binary::ALL.iter().enumerate() {
        let seed = 2 * seed as u64;
        let (low, high) = left_domain(op);
        let a = Weight::new(numbers(left.clone(), low, high, seed));
        let b = Weight::new(numbers(right.clone(), 0.5, 2.0, seed + 1));
        let loss = mixed(&Nd::binary(op, &a.layer(), &b.layer()));
        check_twice(op.name(), &loss, &a);
        check_twice(op.name(), &loss, &b);
        let mixed_derivative = mixed(&loss.gradient(&a));
        check(op.name(), &mixed_derivative, &b);
    }
}

#[test]
fn binary_gradients_match_differences() {
    every_binary([2, 3], [2, 3]);
    every_binary([2, 3], [1, 3]);
    every_binary([2, 1], [1, 3]);
    every_binary([1, 1], [2, 3]);
    every_binary([2, 3], [2, 1]);
    every_binary([4, 1, 3], [1, 2, 1]);
    every_binary([0, 3], [1, 3]);
    every_binary([2, 1, 0], [2, 3, 1]);
    every_binary([], []);
    every_binary(IxDyn(&[2, 3]), IxDyn(&[3]));
    every_binary(IxDyn(&[]), IxDyn(&[2, 3]));
    every_binary(IxDyn(&[3]), IxDyn(&[2, 1]));
}

#[test]
fn binary_gradients_on_transposed_operands_match_differences() {
    for &op in Binary::ALL {
        let a = Weight::new(numbers([2, 3], 0.5, 2.0, 1));
        let b = Weight::new(numbers([3, 2], 0.5, 2.0, 2));
        let c = Weight::new(numbers([3, 1], 0.5, 2.0, 3));
        // operands that have no derivative where they are equal
        let same = if matches!(op, Binary::AtLeast | Binary::AtMost) { &a.layer() } else { &b.t() };
        for loss in [
            mixed(&Nd::binary(op, &a.layer(), &b.t())),
            mixed(&Nd::binary(op, &b.t(), same)),
            mixed(&Nd::binary(op, &b.t(), &c.t())),
            mixed(&Nd::binary(op, &c.layer(), &a.t())),
        ] {
            check(op.name(), &loss, &b);
            check(op.name(), &loss, &a);
            check(op.name(), &loss, &c);
        }
    }
}

#[test]
fn binary_gradients_with_number_match_differences() {
    for &op in Binary::ALL {
        for left in [false, true] {
            let (low, high) = if left { (0.5, 2.0) } else { left_domain(op) };
            let w = Weight::new(numbers([2, 3], low, high, 7));
            check_twice(op.name(), &mixed(&Nd::with_number(op, &w.layer(), 1.3, left)), &w);
        }
    }
}

#[test]
fn methods_with_numbers_gradients_match_differences() {
    let w = Weight::new(numbers([3, 4], -2.0, 2.0, 1));
    check_twice("leaky_relu", &mixed(&w.leaky_relu(0.1)), &w);
    check_twice("elu", &mixed(&w.elu(1.5)), &w);
    check_twice("clamp", &mixed(&w.clamp(-1.0, 0.5).square()), &w);
}

#[test]
fn operators_on_unequal_ranks_gradients_match_differences() {
    let matrix = Weight::new(numbers([2, 3], 0.5, 2.0, 1));
    let vector = Weight::new(numbers(3, 0.5, 2.0, 2));
    let point = Weight::new(numbers((), 0.5, 2.0, 3));
    let open = Weight::new(numbers(IxDyn(&[4, 1, 3]), 0.5, 2.0, 4));
    let loss = mixed(&(&matrix / &vector * &point))
        + mixed(&(&vector - &matrix))
        + mixed(&(&matrix * &open / &vector % &matrix));
    check_twice("matrix", &loss, &matrix);
    check_twice("vector", &loss, &vector);
    check_twice("point", &loss, &point);
    check_twice("open", &loss, &open);
}

#[test]
fn scalar_layer_with_tensor_gradients_match_differences() {
    let s = Weight::new(numbers(1, 0.5, 2.0, 1));
    let w = Weight::new(numbers([2, 3], 0.5, 2.0, 2));
    let number: Layer<f64> = s.at([0]);
    for (what, layer) in [
        ("right", &w / &number),
        ("left", &number / &w),
        ("remainder", &w % &number),
        ("pow", dl_core::pow(&number, &w)),
        ("max", dl_core::max(&w, &number)),
    ] {
        check_twice(what, &mixed(&layer), &s);
        check_twice(what, &mixed(&layer), &w);
    }
}

#[test]
fn product_gradients_match_differences() {
    let a = Weight::new(numbers([2, 3], -1.0, 1.0, 1));
    let b = Weight::new(numbers([3, 4], -1.0, 1.0, 2));
    let v = Weight::new(numbers(3, -1.0, 1.0, 3));
    let u = Weight::new(numbers(3, -1.0, 1.0, 4));
    let losses = [
        ("matrix · matrix", mixed(&a.matmul(&b))),
        ("matrix · vector", mixed(&a.matmul(&v))),
        ("vector · matrix", mixed(&v.matmul(&b))),
        ("vector · vector", mixed(&v.matmul(&u))),
        ("transposed", mixed(&b.t().matmul(a.t()))),
        ("dynamic rank", mixed(&a.to_dyn().matmul(b.to_dyn()))),
        ("matrix · vector of dynamic ranks", mixed(&a.to_dyn().matmul(v.to_dyn()))),
        ("vector · matrix of dynamic ranks", mixed(&v.to_dyn().matmul(b.to_dyn()))),
    ];
    for (what, loss) in losses {
        check_twice(what, &loss, &a);
        check_twice(what, &loss, &b);
        check_twice(what, &loss, &v);
        check_twice(what, &loss, &u);
    }
}

#[test]
fn product_gradients_with_lengths_0_and_1_match_differences() {
    for [m, k, n] in [[0, 2, 3], [2, 0, 3], [2, 3, 0], [1, 1, 1], [1, 3, 1]] {
        let a = Weight::new(numbers([m, k], -1.0, 1.0, 1));
        let b = Weight::new(numbers([k, n], -1.0, 1.0, 2));
        let loss = mixed(&a.matmul(&b));
        check_twice("matmul", &loss, &a);
        check_twice("matmul", &loss, &b);
    }
}

#[test]
fn reduction_gradients_match_differences() {
    let w = Weight::new(numbers([2, 3, 4], -1.0, 1.0, 1));
    check_twice("sum", &w.sum(), &w);
    check_twice("mean", &w.mean(), &w);
    check_twice("sum, transposed", &(w.t().square().sum()), &w);
    for axis in 0..3 {
        check_twice("sum_axis", &mixed(&w.sum_axis(axis)), &w);
        check_twice("sum_keepdim", &mixed(&w.sum_keepdim(axis)), &w);
        check_twice("mean_axis", &mixed(&w.mean_axis(axis)), &w);
        check_twice("mean_keepdim", &mixed(&w.mean_keepdim(axis)), &w);
        check_twice("max_axis", &mixed(&w.amax_axis(axis)), &w);
        check_twice("max_keepdim", &mixed(&w.amax_keepdim(axis)), &w);
        check_twice("transposed", &mixed(&w.t().amax_axis(axis)), &w);
        check_twice("dynamic rank", &mixed(&w.to_dyn().sum_axis(axis)), &w);
    }
}

#[test]
fn movement_gradients_match_differences() {
    let w = Weight::new(numbers([2, 3, 4], -1.0, 1.0, 1));
    let square = |x: Layer<Nd<f64, ndarray::Ix3>>| mixed(&(&x * &x));
    check_twice("t", &square(w.t()), &w);
    check_twice("permute", &square(w.permute([1, 2, 0])), &w);
    check_twice("permute, from the end", &mixed(&w.permute([-1, 0, -2])), &w);
    check_twice("permute, open", &mixed(&w.to_dyn().permute([2, 0, 1])), &w);
    check_twice("reshape", &mixed(&w.reshape([6, 4]).square()), &w);
    check_twice("reshape, transposed", &mixed(&w.t().reshape(24).square()), &w);
    check_twice("insert_axis", &mixed(&w.unsqueeze(1).square()), &w);
    check_twice("remove_axis", &mixed(&w.unsqueeze(3).squeeze(3)), &w);
    check_twice("to_rank", &mixed(&w.to_dyn().to_rank::<ndarray::Ix3>()), &w);
}

#[test]
fn selection_gradients_match_differences() {
    let w = Weight::new(numbers([3, 2, 4], -1.0, 1.0, 1));
    check_twice("row", &mixed(&w.row(1).square()), &w);
    check_twice("row, transposed", &mixed(&w.t().row(3).square()), &w);
    check_twice("slice_axis", &mixed(&w.slice_axis(2, 1..3).square()), &w);
    check_twice("empty slice_axis", &mixed(&w.slice_axis(2, 1..1).square()), &w);
    check_twice("select", &mixed(&w.index_select(0, [2, 0, 2]).square()), &w);
    check_twice("select", &mixed(&w.index_select(2, vec![1, 1]).square()), &w);
    check_twice("at", &(w.at([1, 0, 2]) * w.at([2, 1, 3])), &w);
}

#[test]
fn softmax_and_loss_gradients_match_differences() {
    let w = Weight::new(numbers([3, 4], -2.0, 2.0, 1));
    for axis in 0..2 {
        check_twice("softmax", &mixed(&w.softmax(axis)), &w);
        check_twice("log_softmax", &mixed(&w.log_softmax(axis)), &w);
        check_twice("softmax, transposed", &mixed(&w.t().softmax(axis)), &w);
    }
    check_twice("cross_entropy", &w.cross_entropy([3, 0, 3]), &w);
    check_twice("cross_entropy, dynamic rank", &(w.to_dyn().cross_entropy([3, 0, 3]) * 2.0), &w);
}
