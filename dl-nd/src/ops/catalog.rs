#![doc = include_str!("catalog.md")]
//!
//! ```
//! use dl_nd::operations::Operation;
//! let softmax = Operation::all().into_iter().find(|operation| operation.name == "softmax").expect("there is one");
//! assert_eq!(softmax.torch, "torch.softmax");
//! assert!(softmax.gradient && softmax.one_kernel);
//! ```

use dl_core::{Binary, Unary};
use std::fmt::Write;

/// The metadata of an operation: one row of the table above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The name of its method or function. Reductions such as `sum` also have the variants
    /// `sum_axis` and `sum_keepdim`.
    pub name: &'static str,
    /// Its name in PyTorch.
    pub torch: &'static str,
    /// The ranks or types of its operands.
    pub ranks: &'static str,
    /// Whether a gradient flows through it.
    pub gradient: bool,
    /// Whether it is evaluated as one kernel; otherwise it is composed of other operations.
    pub one_kernel: bool,
}

const POINTWISE: &str = "any, broadcast";

macro_rules! operations {
    ($($name:literal $torch:literal $ranks:literal $gradient:ident $one_kernel:ident;)*) => {
        [$(Operation { name: $name, torch: $torch, ranks: $ranks, gradient: $gradient, one_kernel: $one_kernel }),*]
    };
}

impl Operation {
    /// All operations, the pointwise ones first.
    ///
    /// ```
    /// assert!(dl_nd::operations::Operation::all().len() > 100);
    /// ```
    pub fn all() -> Vec<Operation> {
        let unary = Unary::ALL.iter().filter_map(|op| {
            let (torch, gradient) = (op.torch()?, op.has_gradient());
            Some(Operation { name: op.name(), torch, ranks: "any", gradient, one_kernel: true })
        });
        let binary = Binary::ALL.iter().filter_map(|op| {
            let (torch, gradient) = (op.torch()?, op.has_gradient() != (false, false));
            let ranks = if matches!(op, Binary::LeakyRelu | Binary::Elu) { "any, and a number" } else { POINTWISE };
            Some(Operation { name: op.name(), torch, ranks, gradient, one_kernel: true })
        });
        unary.chain(binary).chain(rest()).collect()
    }

    /// The derivative where it jumps, is infinite, or has a choice, and that of PyTorch in parentheses
    /// where it differs; "–" if there is no such point.
    ///
    /// ```
    /// use dl_nd::operations::Operation;
    /// let abs = Operation::all().into_iter().find(|operation| operation.name == "abs").expect("there is one");
    /// assert_eq!(abs.kinks(), "0 at 0");
    /// ```
    pub fn kinks(&self) -> &'static str {
        match self.name {
            "abs" | "sign" | "relu" | "l1" => "0 at 0",
            "leaky_relu" => "the slope at 0",
            "elu" => "`alpha` at 0",
            "clamp" => "0 at a bound",
            "huber" => "`delta` at `delta`, 0 beyond in the second",
            "floor" | "ceil" | "round" => "0 at a jump",
            "rem" => "that of the right side at a jump; in the divisor NaN at 0 (±∞) and at results of ±∞ (1)",
            "div" => "infinite, or NaN at 0 / 0, at divisor 0",
            "recip" => "−∞ at 0",
            "ln" | "sqrt" | "entr" => "∞ at 0",
            "rsqrt" => "−∞ at 0 (∞ at −0)",
            "log1p" => "∞ at −1",
            "asin" | "atanh" => "∞ at ±1",
            "acos" => "−∞ at ±1",
            "acosh" => "∞ at 1",
            "pow" => "at base 0 infinite below the exponent 1, and 0 in the exponent (twice NaN at exponent 0)",
            "xlogy" => "at a = 0: `ln b` in a, 0 unless b > 0; 0 in b (NaN at b = 0)",
            "min" | "max" => "½ for each at ties",
            "amax" | "amin" => "equal parts at ties",
            "norm" | "std" => "0 at 0, also twice (NaN)",
            "norm_p" => "0 at 0, also twice (NaN); equal parts at ties if p = ∞",
            "cosine_similarity" => "that of `x / eps` at 0",
            "argmax" | "argmin" => "the first at ties",
            "sort"
            | "topk"
            | "max_with_indices"
            | "min_with_indices"
            | "max_pool1d"
            | "max_pool2d"
            | "max_pool3d"
            | "adaptive_max_pool1d"
            | "adaptive_max_pool2d"
            | "adaptive_max_pool3d" => "1 for the first at ties",
            "cummax" | "cummin" => "1 for the last at ties",
            "softplus" => "exact above 20 (that of `x`)",
            "erf" | "ndtr" => "0 at ±∞, of any order (NaN)",
            "silu" | "gelu" | "gelu_tanh" => "the limits at ±∞ (NaN)",
            "softmax" | "log_softmax" | "logsumexp" | "logaddexp" => "NaN at −∞ only",
            "logcumsumexp" => "finite at −∞ only (NaN)",
            "bce_with_logits" => "0 at probability 0, infinite logit (NaN)",
            "cross_entropy" | "nll" => "0 at weight 0, logit −∞ (NaN)",
            "ctc" => "NaN at an infinite loss; 0 with `zero_infinity`",
            _ => "–",
        }
    }

    /// The table in Markdown.
    ///
    /// ```
    /// assert!(dl_nd::operations::Operation::table().contains("| `softmax` | `torch.softmax` |"));
    /// ```
    pub fn table() -> String {
        let yes = |yes: bool| if yes { "yes" } else { "–" };
        let mut table = String::from(
            "| operation | PyTorch | ranks | gradient | kinks | one kernel |\n|---|---|---|---|---|---|\n",
        );
        for operation in Operation::all() {
            let Operation { name, torch, ranks, gradient, one_kernel } = operation;
            let (gradient, one_kernel, kinks) = (yes(gradient), yes(one_kernel), operation.kinks());
            writeln!(table, "| `{name}` | `{torch}` | {ranks} | {gradient} | {kinks} | {one_kernel} |")
                .expect("a string grows");
        }
        table
    }
}

#[rustfmt::skip]
fn rest() -> impl IntoIterator<Item = Operation> {
    operations! {
        "clamp" "torch.clamp" "any" true false;
        "where_" "torch.where" "any, broadcast" true true;
        "less" "torch.less" "any, broadcast" false true;
        "less_equal" "torch.less_equal" "any, broadcast" false true;
        "greater" "torch.greater" "any, broadcast" false true;
        "greater_equal" "torch.greater_equal" "any, broadcast" false true;
        "equal" "torch.eq" "any, broadcast" false true;
        "not_equal" "torch.not_equal" "any, broadcast" false true;
        "logical_not" "torch.logical_not" "any, of `bool`" false true;
        "logical_and" "torch.logical_and" "any, of `bool`, broadcast" false false;
        "logical_or" "torch.logical_or" "any, of `bool`, broadcast" false false;
        "cast" "torch.Tensor.to" "any" true true;
        "to_floats" "torch.Tensor.to" "any" false true;

        "sum" "torch.sum" "any" true true;
        "mean" "torch.mean" "any" true true;
        "prod" "torch.prod" "any" true true;
        "amax" "torch.amax" "any" true true;
        "amin" "torch.amin" "any" true true;
        "logsumexp" "torch.logsumexp" "any" true true;
        "norm" "torch.linalg.vector_norm" "any" true true;
        "norm_p" "torch.linalg.vector_norm" "any" true false;
        "var" "torch.var" "any" true false;
        "std" "torch.std" "any" true false;
        "argmax" "torch.argmax" "at least 1" false true;
        "argmin" "torch.argmin" "at least 1" false true;
        "cumsum" "torch.cumsum" "at least 1" true true;
        "cumprod" "torch.cumprod" "at least 1" true true;
        "logcumsumexp" "torch.logcumsumexp" "at least 1" true true;
        "cummax" "torch.cummax" "at least 1" true false;
        "cummin" "torch.cummin" "at least 1" true false;
        "sort" "torch.sort" "at least 1" true false;
        "argsort" "torch.argsort" "at least 1" false true;
        "topk" "torch.topk" "at least 1" true false;
        "max_with_indices" "torch.max" "at least 1" true false;
        "min_with_indices" "torch.min" "at least 1" true false;

        "matmul" "torch.matmul" "1 to 6, batches broadcast" true true;
        "linear" "torch.nn.functional.linear" "at least 1" true true;
        "linear_relu" "torch.nn.functional.linear(…).relu()" "at least 1" true true;
        "dot" "torch.dot" "1 · 1" true false;
        "outer" "torch.outer" "1 ⊗ 1" true false;
        "einsum" "torch.einsum" "any" true true;
        "cosine_similarity" "torch.cosine_similarity" "at least 1" true false;

        "reshape" "torch.reshape" "any" true true;
        "flatten" "torch.flatten" "any" true true;
        "flatten_rows" "torch.flatten(1)" "at least 1" true true;
        "t" "x.permute(*reversed(range(x.ndim)))" "any" true true;
        "transpose" "torch.transpose" "any" true true;
        "permute" "torch.permute" "any" true true;
        "squeeze" "torch.squeeze" "at least 1" true true;
        "unsqueeze" "torch.unsqueeze" "any" true true;
        "expand" "torch.Tensor.expand" "any" true true;
        "lift" "x[None]" "any" true true;
        "to_dyn" "–" "any" true true;
        "to_rank" "–" "any" true true;
        "slice" "x[1:, ::2]" "any" true true;
        "slice_axis" "torch.narrow" "at least 1" true true;
        "row" "torch.select" "at least 1" true true;
        "at" "x[1, 0]" "any" true true;
        "item" "x.reshape(())" "any" true false;
        "to_tensor" "–" "a number" true true;
        "split" "torch.split" "at least 1" true true;
        "chunk" "torch.chunk" "at least 1" true true;
        "flip" "torch.flip" "any" true true;
        "pad" "torch.nn.functional.pad" "any" true true;
        "pad_with" "torch.nn.functional.pad(mode=…)" "any" true false;
        "concat" "torch.concat" "at least 1" true true;
        "stack" "torch.stack" "any" true false;
        "roll" "torch.roll" "at least 1" true true;
        "tril" "torch.tril" "at least 2" true true;
        "triu" "torch.triu" "at least 2" true true;
        "diag" "torch.diag" "1" true true;
        "diagonal" "torch.diagonal" "2" true true;
        "index_select" "torch.index_select" "at least 1" true true;
        "gather" "torch.gather" "at least 1" true true;
        "scatter_add" "torch.scatter_add" "at least 1" true true;
        "masked_select" "torch.masked_select" "any" true false;
        "embedding" "torch.nn.functional.embedding" "2, or a `Table`" true true;
        "embedding_padded" "torch.nn.functional.embedding(padding_idx=…)" "2, or a `Table`" true false;
        "dense" "–" "a `Table`" true true;

        "conv1d" "torch.nn.functional.conv1d" "3" true true;
        "conv2d" "torch.nn.functional.conv2d" "4" true true;
        "conv3d" "torch.nn.functional.conv3d" "5" true true;
        "conv_transpose1d" "torch.nn.functional.conv_transpose1d" "3" true true;
        "conv_transpose2d" "torch.nn.functional.conv_transpose2d" "4" true true;
        "conv_transpose3d" "torch.nn.functional.conv_transpose3d" "5" true true;
        "max_pool1d" "torch.nn.functional.max_pool1d" "3" true false;
        "max_pool2d" "torch.nn.functional.max_pool2d" "4" true false;
        "max_pool3d" "torch.nn.functional.max_pool3d" "5" true false;
        "avg_pool1d" "torch.nn.functional.avg_pool1d" "3" true true;
        "avg_pool2d" "torch.nn.functional.avg_pool2d" "4" true true;
        "avg_pool3d" "torch.nn.functional.avg_pool3d" "5" true true;
        "adaptive_max_pool1d" "torch.nn.functional.adaptive_max_pool1d" "3" true false;
        "adaptive_max_pool2d" "torch.nn.functional.adaptive_max_pool2d" "4" true false;
        "adaptive_max_pool3d" "torch.nn.functional.adaptive_max_pool3d" "5" true false;
        "adaptive_avg_pool1d" "torch.nn.functional.adaptive_avg_pool1d" "3" true true;
        "adaptive_avg_pool2d" "torch.nn.functional.adaptive_avg_pool2d" "4" true true;
        "adaptive_avg_pool3d" "torch.nn.functional.adaptive_avg_pool3d" "5" true true;
        "upsample_linear" "torch.nn.functional.interpolate" "3" true true;
        "upsample_bilinear" "torch.nn.functional.interpolate" "4" true true;
        "upsample_trilinear" "torch.nn.functional.interpolate" "5" true true;
        "upsample_nearest1d" "torch.nn.functional.interpolate" "3" true true;
        "upsample_nearest2d" "torch.nn.functional.interpolate" "4" true true;
        "upsample_nearest3d" "torch.nn.functional.interpolate" "5" true true;
        "upsample_bicubic" "torch.nn.functional.interpolate" "4" true true;
        "batch_norm" "torch.nn.functional.batch_norm" "at least 2" true false;
        "layer_norm" "torch.nn.functional.layer_norm" "at least 1" true false;
        "group_norm" "torch.nn.functional.group_norm" "at least 2" true false;
        "rms_norm" "torch.nn.functional.rms_norm" "at least 1" true false;
        "affine" "x * weight[:, None] + bias[:, None]" "at least 2" true false;
        "dropout" "torch.nn.functional.dropout" "any" true true;
        "softmax" "torch.softmax" "at least 1" true true;
        "log_softmax" "torch.log_softmax" "at least 1" true true;
        "scaled_dot_product_attention" "torch.nn.functional.scaled_dot_product_attention" "at least 2" true false;

        "cross_entropy" "torch.nn.functional.cross_entropy" "at least 2" true true;
        "nll" "torch.nn.functional.nll_loss" "at least 2" true false;
        "ctc" "torch.nn.functional.ctc_loss" "3, and lists of labels" true true;
        "mse" "torch.nn.functional.mse_loss" "any" true false;
        "l1" "torch.nn.functional.l1_loss" "any" true false;
        "huber" "torch.nn.functional.huber_loss" "any" true false;
        "bce_with_logits" "torch.nn.functional.binary_cross_entropy_with_logits" "any" true false;
        "kl_div" "torch.nn.functional.kl_div" "any" true false;
        "one_hot" "torch.nn.functional.one_hot" "a list of labels" false true;
        "jacobian" "torch.func.jacrev" "a number, or any" true false;
        "hessian" "torch.func.hessian" "a number, or any" true false;
    }
}
