//! Operations on tensors. `use dl_nd::ops::*` brings all of them into scope.
//!
//! ```
//! use dl_core::Differentiable;
//! use dl_nd::{Nd, ops::*};
//! let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
//! assert_eq!(x.matmul(x.t()).mean().predict().wait()?, 13.0_f32);
//! assert_eq!(x.square().sum().predict().wait()?, 30.0);
//! # dl_core::Result::Ok(())
//! ```

pub(crate) mod add_n;
pub(crate) mod argmax;
pub(crate) mod attention;
mod attention_on_device;
pub(crate) mod axes;
mod blockwise_attention;
pub(crate) mod broadcast;
pub mod catalog;
pub(crate) mod compare;
pub(crate) mod conv;
pub(crate) mod convert;
pub(crate) mod cross_entropy;
pub(crate) mod ctc;
pub(crate) mod derivatives;
pub(crate) mod dropout;
pub(crate) mod einsum;
pub(crate) mod embedding;
pub(crate) mod expand_as;
mod exps_on_device;
mod immediate_rule;
pub(crate) mod index;
pub(crate) mod interpolate;
pub(crate) mod invalid;
pub(crate) mod join;
mod leave_one_out;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod loss_reduction;
pub(crate) mod masked_select;
pub(crate) mod matmul;
pub(crate) mod max_pool;
pub(crate) mod normalize;
mod operators;
pub(crate) mod pad;
pub(crate) mod pointwise;
pub(crate) mod pool;
pub(crate) mod rearrange;
pub(crate) mod reduce;
mod reduce_on_device;
pub(crate) mod reshape;
pub(crate) mod scan;
pub(crate) mod similarity;
pub(crate) mod slice;
pub(crate) mod slice_gradient;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod transfer;
pub(crate) mod variance;
pub(crate) mod window;

pub use crate::{
    ArrangeOps, CastOps, CompareOps, ConvOps, DerivativeOps, DiscreteOps, DropoutOps, ExtremeOps, IndexOps, LossOps,
    MaskOps, MovementOps, NormOps, NumberOps, PointwiseOps, PoolOps, ProductOps, ReduceOps, ResampleOps, ScanOps,
    SliceOps, SoftmaxOps, SortOps, SpreadOps, TableOps, TransferOps, concat, cosine_similarity, einsum,
    scaled_dot_product_attention, scaled_dot_product_attention_with, stack, where_,
};
