//! Errors must name the operation, the shapes, and the line that called the operation.

use crate::faults::error_of;
use dl_core::{Differentiable, Layer, Weight};
use dl_nd::{
    Attention, BatchMean, Bce, CrossEntropy, Each, Nd, RunningStats, Sum, concat, ops::*,
    scaled_dot_product_attention_with, stack,
};
use dl_optim::{Adagrad, Adam, Sgd};

fn matrix(rows: usize, columns: usize) -> Nd<f32> {
    Nd::full([rows, columns], 1.0)
}

#[test]
fn binary_operation_with_incompatible_shapes_returns_shape_error() {
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
fn matmul_with_different_inner_lengths_returns_shape_error() {
    let (a, v) = (matrix(2, 3), Nd::from([1.0_f32; 4]));
    let error = error_of(a.matmul(&a), "matmul", &["[2, 3] and [2, 3]", "axis 1", "length 3", "axis 0", "2"]);
    assert!(error.is_shape());
    error_of(a.matmul(&v), "matmul", &["[2, 3] and [4]"]);
    error_of(v.matmul(&a), "matmul", &["[4] and [2, 3]"]);
    error_of(v.to_dyn().reshape(ndarray::IxDyn(&[1, 2, 2])).matmul(v.to_dyn()), "matmul", &["[1, 2, 2]", "[4]"]);
}

#[test]
fn reshape_and_permute_with_invalid_shapes_return_error() {
    let a = matrix(2, 3);
    assert!(error_of(a.reshape([4, 2]), "reshape", &["[2, 3] has 6", "[4, 2] has 8"]).is_shape());
    assert!(error_of(a.reshape([usize::MAX - 1, 2]), "reshape", &["[2, 3]"]).is_shape());
    assert!(error_of(a.permute([0, 0]), "permute", &["[0, 0]", "[2, 3]"]).is_invalid());
    assert!(error_of(a.permute([0, 2]), "permute", &["[0, 2]", "[2, 3]"]).is_invalid());
    assert!(error_of(a.permute([1, -1]), "permute", &["[1, -1]", "[2, 3]"]).is_invalid());
    assert!(error_of(a.permute(vec![0, -3, 1]), "permute", &["[0, -3, 1]", "[2, 3]"]).is_invalid());
    assert!(error_of(a.unsqueeze(3), "unsqueeze", &["3", "[2, 3]"]).is_invalid());
    assert!(error_of(a.squeeze(1), "squeeze", &["axis 1", "[2, 3]", "length 3"]).is_shape());
    assert!(error_of(a.to_dyn().to_rank::<ndarray::Ix3>(), "to_rank", &["[2, 3]", "3 axes"]).is_shape());
}

#[test]
fn axis_or_index_out_of_range_returns_error() {
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
fn mean_and_extremum_of_empty_tensor_return_shape_error() {
    let none = matrix(0, 3);
    assert!(error_of(none.mean(), "mean", &["[0, 3]"]).is_shape());
    assert!(error_of(none.mean_axis(0), "mean_axis", &["[0, 3]"]).is_shape());
    assert!(error_of(none.amax_axis(0), "amax_axis", &["[0, 3]"]).is_shape());
    assert!(error_of(none.cross_entropy(vec![]), "cross_entropy", &["[0, 3]"]).is_shape());
    assert_eq!(none.sum().predict().wait().unwrap(), 0.0);
    assert_eq!(none.sum_axis(0).predict().wait().unwrap(), Nd::from([0.0; 3]));
}

#[test]
fn label_out_of_range_returns_error() {
    let logits = matrix(2, 10);
    let error = error_of(logits.cross_entropy([3, 12]), "cross_entropy", &["label 12", "index 1", "classes, 10"]);
    assert!(error.is_invalid());
    assert!(error_of(logits.cross_entropy([3]), "cross_entropy", &["1 labels", "[2, 10]"]).is_shape());
}

#[test]
fn labels_of_wrong_shape_return_error() {
    let logits = Nd::<f32, _>::full([2, 3, 4, 4], 0.0);
    let labels = Nd::full([2, 4, 4], 0_usize);
    let (long, open) = (Nd::full([2, 4, 5], 0), Nd::full(ndarray::IxDyn(&[2, 1]), 0));
    error_of(matrix(2, 3).cross_entropy(open), "cross_entropy", &["[2, 1]", "[2, 3]"]);
    error_of(logits.cross_entropy(long), "cross_entropy", &["[2, 4, 5]", "[2, 3, 4, 4]", "[2, 4, 4]"]);
    let mut array = labels.into_array();
    array[[1, 2, 3]] = 3;
    error_of(logits.cross_entropy(Nd::from(array)), "cross_entropy", &["label 3", "index [1, 2, 3]", "classes, 3"]);
    let smooth = CrossEntropy::new().label_smoothing(0.1);
    error_of(matrix(2, 3).cross_entropy_with([0, 3], &smooth), "cross_entropy", &["label 3", "classes, 3"]);
    error_of(matrix(2, 3).cross_entropy_with([0], &smooth), "cross_entropy", &["1 labels", "[2, 3]"]);
    error_of(matrix(2, 3).nll([0, 1, 2]), "nll", &["3 labels", "[2, 3]"]);
    error_of(matrix(2, 3).nll([0, 4]), "nll", &["label 4", "index 1"]);
    error_of(Nd::from([1.0_f32]).to_dyn().cross_entropy([0]), "cross_entropy", &["[1]", "axis 1"]);
    error_of(matrix(2, 3).cross_entropy(matrix(2, 4)), "cross_entropy", &["[2, 3]", "[2, 4]"]);
}

#[test]
fn cross_entropy_with_invalid_settings_returns_error() {
    let (x, plain) = (matrix(2, 3), CrossEntropy::new);
    for bad in [-0.1, 1.5, f64::NAN] {
        let settings = plain().label_smoothing(bad);
        let error = error_of(x.cross_entropy_with([0, 1], &settings), "cross_entropy", &["label_smoothing", "0 and 1"]);
        assert!(error.is_invalid());
    }
    let ignoring = plain().ignore_index(7);
    error_of(x.cross_entropy_with([7, 7], &ignoring), "cross_entropy", &["all labels are 7"]);
    error_of(x.cross_entropy_with(matrix(2, 3), &ignoring), "cross_entropy", &["class probabilities"]);
    let sum = x.cross_entropy_with([7, 7], &ignoring.reduction(Sum));
    assert_eq!(sum.predict().wait().unwrap(), 0.0);
    error_of(matrix(0, 3).cross_entropy_with(vec![], &plain().ignore_index(7)), "cross_entropy", &["empty", "[0, 3]"]);
    let weights = plain().weights(Nd::from([1.0, 2.0]));
    error_of(x.cross_entropy_with([0, 1], &weights), "cross_entropy", &["[2]", "3 channels", "[2, 3]"]);
}

#[test]
fn losses_of_different_shapes_return_shape_error() {
    let x = matrix(2, 3);
    for other in [matrix(1, 3), matrix(2, 1), matrix(3, 2)] {
        let shape = format!("{:?}", other.shape());
        let parts = ["[2, 3]", &shape];
        assert!(error_of(x.mse(&other), "mse", &parts).is_shape());
        error_of(x.l1_with(&other, Each), "l1", &parts);
        error_of(x.huber(&other, 1.0), "huber", &parts);
        error_of(x.bce_with_logits(&other), "bce_with_logits", &parts);
        error_of(x.kl_div_with(&other, BatchMean), "kl_div", &parts);
    }
    error_of(x.to_dyn().mse(Nd::from([1.0; 3]).to_dyn()), "mse", &["[2, 3]", "[3]"]);
    error_of(matrix(0, 3).mse(matrix(0, 3)), "mse", &["empty", "[0, 3]"]);
    error_of(matrix(0, 3).kl_div_with(matrix(0, 3), BatchMean), "kl_div", &["empty", "[0, 3]"]);
    assert_eq!(matrix(0, 3).mse_with(matrix(0, 3), Sum).predict().wait().unwrap(), 0.0);
    for bad in [0.0, -1.0, f64::NAN] {
        error_of(x.huber(&x, bad), "huber", &["delta", "above 0"]);
    }
    let settings = Bce::new().pos_weight(Nd::from([1.0, 2.0]));
    error_of(x.bce_with_logits_with(&x, &settings), "bce_with_logits", &["[2]", "[2, 3]"]);
}

#[test]
fn normalisation_with_invalid_shapes_or_settings_returns_error() {
    let x = matrix(2, 6);
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        error_of(x.layer_norm(1, bad), "layer_norm", &["eps"]);
        error_of(x.rms_norm(1, bad), "rms_norm", &["eps"]);
        error_of(x.batch_norm(bad), "batch_norm", &["eps"]);
        error_of(x.batch_norm_with(&RunningStats::new(6), bad), "batch_norm_with", &["eps"]);
        error_of(x.group_norm(2, bad), "group_norm", &["eps"]);
    }
    error_of(x.layer_norm(0, 1e-5), "layer_norm", &["last 0 axes", "[2, 6]"]);
    error_of(x.layer_norm(3, 1e-5), "layer_norm", &["last 3 axes", "[2, 6]"]);
    error_of(x.rms_norm(usize::MAX, 1e-5), "rms_norm", &["[2, 6]"]);
    error_of(x.group_norm(4, 1e-5), "group_norm", &["6 channels", "[2, 6]", "4 groups"]);
    error_of(x.group_norm(0, 1e-5), "group_norm", &["0 groups"]);
    error_of(Nd::from([1.0_f32]).group_norm(1, 1e-5), "group_norm", &["[1]", "no channel axis"]);
    error_of(matrix(0, 6).batch_norm(1e-5), "batch_norm", &["axis 0", "[0, 6]"]);
    error_of(matrix(2, 0).layer_norm(1, 1e-5), "layer_norm", &["axis 1", "[2, 0]"]);
    let few = RunningStats::new(1);
    error_of(x.batch_norm_with(&few, 1e-5), "batch_norm_with", &["[1]", "6 channels or classes", "[2, 6]"]);
    let stats = RunningStats::new(6);
    error_of(x.batch_norm_with(&stats.clone().momentum(1.5), 1e-5), "batch_norm_with", &["momentum", "1.5"]);
    let once = matrix(1, 6).batch_norm_with(&stats, 1e-5);
    let error = once.train(&Sgd::new(0.1)).wait().unwrap_err();
    assert!(error.is_shape() && error.op() == Some("batch_norm_with"), "{error}");
    error_of(x.affine(Nd::from([1.0; 6]), Nd::from([1.0; 5])), "affine", &["[5]", "6 channels", "[2, 6]"]);
}

#[test]
fn dropout_and_attention_with_invalid_operands_return_error() {
    let x = matrix(2, 3);
    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(error_of(x.dropout(bad), "dropout", &["probability", "between 0 and 1"]).is_invalid());
    }
    let attention = "scaled_dot_product_attention";
    let (k, v) = (matrix(4, 2), matrix(5, 2));
    error_of(scaled_dot_product_attention(&x, &k, &k), attention, &["[2, 3]", "[2, 4]"]);
    error_of(scaled_dot_product_attention(&x, matrix(4, 3), v), attention, &["[2, 4]", "[5, 2]"]);
    let mask = Attention::new().mask(Nd::from([true; 5]));
    error_of(scaled_dot_product_attention_with(&x, &x, &x, &mask), attention, &["[5]", "[2, 2]"]);
}

#[test]
fn failed_step_leaves_weights_unchanged() {
    let w = Weight::new(matrix(2, 3));
    let loss = w.sum() + w.matmul(&w).sum();
    assert!(loss.train(&Sgd::new(1.0)).wait().unwrap_err().is_shape());
    assert_eq!(w.value(), matrix(2, 3));
}

#[test]
fn tensor_too_large_for_memory_returns_error() {
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
    let long = Nd::<f32, _>::full([1, 1 << 24], 0.0);
    error_of(long.index_select(0, vec![0; 1 << 16]).row(0), "index_select");
    error_of(concat(0, vec![long.layer(); 1 << 16]).row(0), "concat");
    error_of(stack(0, vec![long.layer(); 1 << 16]).flatten(), "stack");
}

/// The attention weights have one row for each query; a mask cannot broadcast them to more.
#[test]
fn attention_mask_larger_than_scores_returns_shape_error() {
    let (q, k) = (Nd::from([[1.0_f64]]), Nd::from([[1.0], [2.0]]));
    let error_of = |settings: Attention<f64>| {
        let layer = scaled_dot_product_attention_with(&q, &k, &k, &settings);
        let error = layer.predict().wait().unwrap_err();
        assert_eq!(error.op(), Some("scaled_dot_product_attention"), "{error}");
        assert!(error.is_shape() && error.to_string().contains("[3, 2] does not broadcast to [1, 2]"), "{error}");
    };
    error_of(Attention::new().mask(Nd::from([[true, true], [true, false], [false, true]])));
    error_of(Attention::new().bias(Nd::full([3, 2], 0.0)));
    let one = Attention::new().mask(Nd::from([false, true])).bias(Nd::from([[7.0, 7.0]]));
    let y = scaled_dot_product_attention_with(&q, &k, &k, &one);
    assert_eq!(y.predict().wait().unwrap(), Nd::from([[2.0]]));
}

/// The error of an implicit rank conversion carries the location of the caller.
#[test]
fn rank_conversion_error_carries_caller_location() {
    error_of(matrix(1, 2).expand([2]), "broadcast", &["[1, 2]", "1 axes"]);
    error_of(matrix(1, 2).to_dyn().dot(Nd::from([1.0, 2.0])), "to_rank", &["[1, 2]", "1 axes"]);
}

#[test]
fn optimizer_state_of_wrong_shape_leaves_weights_unchanged() {
    let w = Weight::new(Nd::from([1.0_f64, 2.0]));
    let (adam, adagrad, momentum) = (Adam::new(0.1), Adagrad::new(0.1), Sgd::new(0.1).momentum(0.9));
    let optimizers: [&dyn Fn() -> dl_core::Result<f64>; 3] =
        [&|| w.square().sum().train(&adam).wait(), &|| w.square().sum().train(&adagrad).wait(), &|| {
            w.square().sum().train(&momentum).wait()
        }];
    for step in optimizers {
        w.set(Nd::from([1.0, 2.0]));
        step().unwrap();
        let longer = Nd::from([1.0, 2.0, 3.0]);
        w.set(longer.clone());
        let error = step().unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("[2]") && error.to_string().contains("[3]"), "{error}");
        assert_eq!(w.value(), longer);
    }
}

#[test]
fn optimizer_with_invalid_settings_leaves_weights_unchanged() {
    let w = Weight::new(Nd::from([1.0_f64, 2.0]));
    let assert_rejected = |error: dl_core::Error| assert!(error.to_string().contains("has to be"), "{error}");
    assert_rejected(w.square().sum().train(&Sgd::new(f64::NAN)).wait().unwrap_err());
    assert_rejected(w.square().sum().train(&Adam::new(f64::NAN)).wait().unwrap_err());
    assert_rejected(w.square().sum().train(&Adam::new(0.1).betas(1.0, 1.0)).wait().unwrap_err());
    assert_rejected(w.square().sum().train(&Adagrad::new(0.1).initial_accumulator(-1.0)).wait().unwrap_err());
    assert_eq!(w.value(), Nd::from([1.0, 2.0]));
}

/// PyTorch gives NaN, and a step then makes all weights NaN.
#[test]
fn weighted_mean_with_total_weight_of_zero_fails() {
    let settings = CrossEntropy::new().weights(Nd::from([0.0_f32, 1.0])).ignore_index(7);
    let smooth = settings.clone().label_smoothing(0.25);
    let w = Weight::new(Nd::from([[1.0_f32, 0.0], [0.5, 2.0]]));
    for loss in [
        w.cross_entropy_with([0, 0], &settings),
        w.cross_entropy_with([0, 7], &settings),
        w.cross_entropy_with([0, 0], &smooth),
        w.nll_with([0, 0], &settings),
    ] {
        let error = loss.train(&dl_optim::Sgd::new(0.1)).wait().expect_err("it fails");
        assert!(error.to_string().contains("the weights of the labels sum to 0: the mean is undefined"), "{error}");
        assert_eq!(w.value(), Nd::from([[1.0_f32, 0.0], [0.5, 2.0]]));
    }
    // other reductions, and other labels
    let sum = w.cross_entropy_with([0, 0], &settings.clone().reduction(Sum)).train(&dl_optim::Sgd::new(0.1));
    assert_eq!(sum.wait().expect("it succeeds"), 0.0);
    assert!(w.cross_entropy_with([0, 1], &settings).predict().wait().expect("it succeeds").is_finite());
}
