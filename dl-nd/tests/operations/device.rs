//! Runs every case on a device, and compares the bits with those of the host.
//!
//! The device is that of `dl_gpu::open`, in CI PoCL, which is OpenCL on the processor. Without a
//! device these tests only say so.

use crate::case::{Case, Numbers};
use crate::registry::{self, Op, Scalar};
use dl_core::{Differentiable, Layer, Result, Weight};
use dl_gpu::Settings;
use dl_nd::Nd;
use dl_nd::device::Device;
use ndarray::IxDyn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The operations that devices have. All others must be refused.
const THERE: &[&str] = &[
    "neg",
    "abs",
    "sign",
    "exp",
    "ln",
    "expm1",
    "log1p",
    "rsqrt",
    "sqrt",
    "recip",
    "square",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "relu",
    "softplus",
    "floor",
    "ceil",
    "round",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "log_sigmoid",
    "entr",
    "erf",
    "ndtr",
    "gelu",
    "gelu_tanh",
    "silu",
    "leaky_relu",
    "elu",
    "clamp",
    "add",
    "sub",
    "mul",
    "div",
    "rem",
    "pow",
    "min",
    "max",
    "xlogy",
    "logaddexp",
    "sum",
    "mean",
    "amax",
    "amin",
    "norm",
    "reshape",
    "flatten",
    "flatten_rows",
    "t",
    "permute",
    "transpose",
    "squeeze",
    "unsqueeze",
    "expand",
    "slice",
    "slice_axis",
    "row",
    "split",
    "chunk",
    "concat",
    "stack",
    "pad",
    "flip",
    "at",
    "matmul",
    "linear",
    "linear_relu",
    "dot",
    "outer",
    "tril",
    "triu",
    "diag",
    "diagonal",
    "roll",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "where_",
    "prod",
    "var",
    "std",
    "batch_norm",
    "layer_norm",
    "group_norm",
    "rms_norm",
    "mse",
    "l1",
    "huber",
    "kl_div",
    "bce_with_logits",
    "cosine_similarity",
    "softmax",
    "log_softmax",
    "logsumexp",
    "cross_entropy",
    "nll",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "argmax",
    "argmin",
    "max_with_indices",
    "min_with_indices",
    "gather",
    "scatter_add",
    "index_select",
    "embedding",
    "embedding_padded",
    "pad_with",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear",
    "upsample_bilinear",
    "upsample_trilinear",
    "upsample_bicubic",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "scaled_dot_product_attention",
    "masked_select",
    "sort",
    "argsort",
    "topk",
    "einsum",
    "norm_p",
];

/// Operations that use functions of the platform's math library, in `f32` and `f64`.
const BY_PLATFORM: &[&str] = &["sinh", "cosh", "asinh"];
const BY_PLATFORM_IN_F64: &[&str] = &["sin", "cos", "tan", "asin", "acos", "atan", "pow", "norm_p"];

/// A device that interprets all pointwise programs but long ones. One test at a time has it:
/// PoCL crashes now and then if it compiles for several.
fn device() -> Option<(Arc<dyn Device>, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::new(());
    let others_wait = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match dl_gpu::open_with(Settings { compile_from: u32::MAX }) {
        Ok(device) => Some((device, others_wait)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Whether second derivatives are compared too. Their programs are too long for the interpreter:
/// there are fifty builds.
fn sweeps() -> bool {
    std::env::var_os("DL_SWEEP").is_some()
}

/// The same numbers in row-major order.
fn row_major<A: Scalar>(numbers: &Numbers) -> Nd<A, IxDyn> {
    Numbers { layout: (Vec::new(), Vec::new()), ..numbers.clone() }.tensor()
}

/// The value and the gradients of a case, on the host or on a device.
fn results<A: Scalar>(op: &Op, case: &Case, device: Option<&Arc<dyn Device>>) -> Vec<Result<Nd<A, IxDyn>>> {
    let place = |x: Nd<A, IxDyn>| device.map_or(Ok(x.clone()), |device| x.to(device)).expect("the device has room");
    let weights: Vec<Weight<_>> = case.inputs.iter().map(|input| Weight::new(place(row_major(input)))).collect();
    let operands: Vec<_> = weights.iter().map(Differentiable::layer).collect();
    registry::PLACE.set(device.cloned());
    let output = A::apply(op, &case.args, &operands);
    registry::PLACE.set(None);
    let mut results = vec![output.predict().wait()];
    let Some(first) = &case.first else { return results };
    let loss: Layer<A> = A::dot(&output, &place(row_major(&first.weights[0])));
    results.extend(weights.iter().map(|weight| loss.gradient(weight).predict().wait()));
    let Some(second) = case.second.as_ref().filter(|_| A::EXACT && sweeps()) else { return results };
    let along = weights.iter().zip(&second.weights);
    let along = along.map(|(weight, v)| A::dot(&loss.gradient(weight), &place(row_major(v))));
    let along: Layer<A> = along.sum();
    results.extend(weights.iter().map(|weight| along.gradient(weight).predict().wait()));
    results
}

/// Whether two elements have the same bits, or are NaN, or are close if that is enough.
fn agrees(found: f64, expected: f64, tolerance: f64) -> bool {
    let close = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan() || tolerance > 0.0 && close
}

/// The failures of an operation, and the number of results compared.
fn check<A: Scalar>(op: &Op, cases: &[&Case], device: &Arc<dyn Device>) -> (Vec<String>, usize) {
    let is_by_platform = BY_PLATFORM.contains(&op.name) || A::EXACT && BY_PLATFORM_IN_F64.contains(&op.name);
    let tolerance = if !is_by_platform {
        0.0
    } else if A::EXACT {
        1e-13
    } else {
        1e-5
    };
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in cases {
        let mut fail = |what: String| wrong.push(format!("{}, line {}, {:?}: {what}", op.name, case.line, case.args));
        let (expected, found) = (results::<A>(op, case, None), results::<A>(op, case, Some(device)));
        for (number, (expected, found)) in expected.into_iter().zip(found).enumerate() {
            let (expected, found) = match (expected, found) {
                (Ok(expected), Ok(found)) => (expected, found),
                (Err(_), Err(_)) => continue,
                (_, found) => {
                    fail(format!("result {number} is {found:?}"));
                    continue;
                }
            };
            // a number is a tensor of the host again
            if found.device().is_none() && found.len() > 1 {
                fail(format!("result {number} lies on the host"));
            }
            let found = found.to_host().expect("the device computes");
            let differ = |(found, expected): &(&A, &A)| !agrees(found.to_double(), expected.to_double(), tolerance);
            let different = found.view().iter().zip(expected.view()).filter(differ).count();
            compared += 1;
            if found.shape() != expected.shape() || different > 0 {
                fail(format!(
                    "result {number} differs in {different} elements\n  {found:?}\n  instead of {expected:?}"
                ));
            }
        }
    }
    (wrong, compared)
}

fn every_row<A: Scalar>() {
    // the sum of a short lazy tensor has another order than that of its elements
    if std::env::var_os("DL_FUSE_FROM").is_some() {
        return;
    }
    let Some((device, _others_wait)) = device() else { return };
    let all = Case::all();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for op in registry::all().iter().filter(|op| THERE.contains(&op.name)) {
        let cases: Vec<&Case> = all.iter().filter(|case| case.op == op.name).collect();
        let (failures, count) = check::<A>(op, &cases, &device);
        wrong.extend(failures);
        compared += count;
    }
    assert!(wrong.is_empty(), "{} results are wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 500, "only {compared} results were compared");
    // the libraries for two types, and programs that are too long for the interpreter
    assert!(sweeps() || device.counters().builds <= 8, "{} builds", device.counters().builds);
}

#[test]
fn rows_on_device_have_bits_of_host_in_f32() {
    every_row::<f32>();
}

#[test]
fn rows_on_device_have_bits_of_host_in_f64() {
    every_row::<f64>();
}

#[test]
fn rows_without_kernel_are_refused_and_copy_nothing() {
    let Some((device, _others_wait)) = device() else { return };
    let all = Case::all();
    for op in registry::all().iter().filter(|op| !THERE.contains(&op.name)) {
        let case = all.iter().find(|case| case.op == op.name).expect("every operation has cases");
        let before = device.counters();
        let result = results::<f32>(op, case, Some(&device)).swap_remove(0);
        match result {
            Err(error) => assert!(error.to_string().contains("OpenCL"), "{}: {error}", op.name),
            Ok(value) => assert!(value.device().is_some() || value.len() == 1, "{} ran on the host", op.name),
        }
        // some numbers at most
        assert!(device.counters().bytes_down <= before.bytes_down + 16, "{} has copied elements", op.name);
    }
}
