//! Errors name the operation, the shapes, and the line that called the operation.

#[path = "common/faults.rs"]
mod faults;

use dl_core::{Differentiable, Layer, Sgd, Weight};
use dl_nd::{Nd, ops::*};
use faults::error_of;

fn matrix(rows: usize, columns: usize) -> Nd<f32> {
    Nd::full([rows, columns], 1.0)
}

#[test]
fn shapes_that_do_not_broadcast() {
    let (a, b) = (matrix(2, 3), matrix(4, 3));
    let w = Weight::new(b.clone());
    assert!(error_of(&a + &b, "add", &["[2, 3]", "[4, 3]", "axis -2", "length 2", "4"]).is_shape());
    assert!(error_of(w.layer() * &a, "mul", &["[2, 3]", "[4, 3]"]).is_shape());
    assert!(error_of(&w - a.layer(), "sub", &["[2, 3]", "[4, 3]"]).is_shape());
    assert!(error_of(dl_core::max(&w, &a), "max", &["[2, 3]", "[4, 3]"]).is_shape());
    assert!(error_of(w.min(&a), "min", &["[2, 3]", "[4, 3]"]).is_shape());
    assert!(error_of(&a / Nd::from([1.0, 2.0]), "div", &["[2, 3]", "[1, 2]"]).is_shape());
}

#[test]
fn products_that_do_not_fit() {
    let (a, v) = (matrix(2, 3), Nd::from([1.0_f32; 4]));
    let error = error_of(a.matmul(&a), "matmul", &["[2, 3] and [2, 3]", "axis 1", "length 3", "axis 0", "2"]);
    assert!(error.is_shape());
    error_of(a.matmul(&v), "matmul", &["[2, 3] and [4]"]);
    error_of(v.matmul(&a), "matmul", &["[4] and [2, 3]"]);
    error_of(v.to_dyn().reshape(ndarray::IxDyn(&[1, 2, 2])).matmul(v.to_dyn()), "matmul", &["[1, 2, 2]", "[4]"]);
}

#[test]
fn movement_that_does_not_fit() {
    let a = matrix(2, 3);
    assert!(error_of(a.reshape([4, 2]), "reshape", &["[2, 3] has 6", "[4, 2] has 8"]).is_shape());
    assert!(error_of(a.reshape([usize::MAX, 2]), "reshape", &["[2, 3]"]).is_shape());
    assert!(error_of(a.permute([0, 0]), "permute", &["[0, 0]", "[2, 3]"]).is_invalid());
    assert!(error_of(a.permute([0, 2]), "permute", &["[0, 2]", "[2, 3]"]).is_invalid());
    assert!(error_of(a.unsqueeze(3), "unsqueeze", &["3", "[2, 3]"]).is_invalid());
    assert!(error_of(a.squeeze(1), "squeeze", &["axis 1", "[2, 3]", "length 3"]).is_shape());
    assert!(error_of(a.to_dyn().to_rank::<ndarray::Ix3>(), "to_rank", &["[2, 3]", "3 axes"]).is_shape());
}

#[test]
fn axes_and_indices_that_are_not_there() {
    let a = matrix(2, 3);
    error_of(a.sum_axis(2), "sum_axis", &["axis 2", "[2, 3]", "2 axes"]);
    error_of(a.mean_keepdim(5), "mean_keepdim", &["axis 5", "[2, 3]"]);
    error_of(a.amax_axis(2), "amax_axis", &["axis 2", "[2, 3]"]);
    error_of(a.softmax(2), "softmax", &["axis 2", "[2, 3]"]);
    error_of(a.log_softmax(2), "log_softmax", &["axis 2", "[2, 3]"]);
    error_of(a.row(2), "row", &["row 2", "[2, 3]", "2 rows"]);
    error_of(a.slice_axis(1, 2..5), "slice_axis", &["2..5", "axis 1", "[2, 3]"]);
    error_of(a.index_select(1, [0, 7]), "index_select", &["index 7", "number 1", "axis 1", "[2, 3]"]);
    error_of(a.at([1, 3]), "at", &["[1, 3]", "[2, 3]"]);
}

#[test]
fn reductions_of_nothing() {
    let none = matrix(0, 3);
    assert!(error_of(none.mean(), "mean", &["[0, 3]"]).is_shape());
    assert!(error_of(none.mean_axis(0), "mean_axis", &["[0, 3]"]).is_shape());
    assert!(error_of(none.amax_axis(0), "amax_axis", &["[0, 3]"]).is_shape());
    assert!(error_of(none.cross_entropy(vec![]), "cross_entropy", &["[0, 3]"]).is_shape());
    assert_eq!(none.sum().predict().wait().unwrap(), 0.0);
    assert_eq!(none.sum_axis(0).predict().wait().unwrap(), Nd::from([0.0; 3]));
}

#[test]
fn labels_out_of_range() {
    let logits = matrix(2, 10);
    let error = error_of(logits.cross_entropy([3, 12]), "cross_entropy", &["label 12", "index 1", "classes, 10"]);
    assert!(error.is_invalid());
    assert!(error_of(logits.cross_entropy([3]), "cross_entropy", &["1 labels", "[2, 10]"]).is_shape());
}

#[test]
fn a_failed_step_changes_nothing() {
    let w = Weight::new(matrix(2, 3));
    let loss = w.sum() + w.matmul(&w).sum();
    assert!(loss.train(&Sgd::new(1.0)).wait().unwrap_err().is_shape());
    assert_eq!(w.value(), matrix(2, 3));
}

#[test]
fn tensors_that_are_too_large() {
    let x = Nd::from([1.0_f32]);
    let error_of = |layer: Layer<Nd<f32, ndarray::Ix1>>, op| {
        let error = layer.predict().wait().unwrap_err();
        assert_eq!(error.op(), Some(op), "{error}");
        assert!(error.to_string().contains("memory"), "{error}");
    };
    error_of(x.expand([1 << 50]), "expand");
    error_of(x.pad(&[(0, 1 << 50)], 0.0), "pad");
    error_of(x.pad(&[(1, usize::MAX)], 0.0), "pad");
    error_of(x.diag(1 << 40).row(0), "diag");
    error_of(x.diag(isize::MIN).row(0), "diag");
}
