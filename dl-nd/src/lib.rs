//! Differentiable tensors on [`ndarray`]: the data type [`Nd`], its layers and weights, and the
//! operations of networks.
//!
//! Users add the `monadic-dl` package (`use dl::prelude::*`), which re-exports all of this.
//!
//! ```
//! use dl_core::{Differentiable, Sgd, Weight};
//! use dl_nd::{Nd, NdLayer, NdWeight, init, ops::*};
//!
//! struct Net {
//!     hidden: NdWeight,
//!     output: NdWeight,
//! }
//!
//! impl Net {
//!     fn scores(&self, images: &Nd) -> NdLayer {
//!         images.matmul(&self.hidden).relu().matmul(&self.output)
//!     }
//! }
//!
//! let mut rng = init::rng(1);
//! let net = Net {
//!     hidden: Weight::new(init::he_normal([4, 8], &mut rng)),
//!     output: Weight::new(init::xavier_uniform([8, 2], &mut rng)),
//! };
//! let images = Nd::from([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]]);
//! let loss = net.scores(&images).cross_entropy([0, 1]);
//! let before = loss.predict().wait()?;
//! for _ in 0..20 {
//!     loss.train(&Sgd::new(0.1)).wait()?;
//! }
//! assert!(loss.predict().wait()? < before);
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Words
//!
//! - *rank*: the number of axes. It is part of the type (`Ix0` to `Ix6`); `IxDyn` leaves it open.
//!   See [`Rank`].
//! - *broadcasting*: NumPy's rule for operands of unequal shapes. They are aligned at their last
//!   axes; missing axes, and axes of length 1, are repeated. The gradient of a repeated operand is
//!   summed back to its shape.
//! - *table*: a matrix of which a training step reads, and changes, some rows; its delta is sparse.
//!   See [`Table`].
//!
//! What it does not do: it knows no data sets and no modules, and it does not check ranks that were
//! declared open before it runs.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `npy` | `.npy` files: `Nd::read_npy`, `Nd::write_npy` |

#![deny(unsafe_code)]

mod accurate;
mod arrange;
mod attention;
mod axes;
mod broadcast;
mod compare;
mod conv;
mod convert;
mod cross_entropy;
mod derivatives;
mod dropout;
mod einsum;
mod element;
mod elements;
mod expression;
mod extreme;
mod formula;
#[allow(unsafe_code, reason = "kernels work on raw pointers, which views have checked: see the module")]
mod gemm;
mod index;
pub mod init;
mod join;
mod like;
mod linear;
mod lines;
mod loss;
mod matmul;
mod mode;
mod movement;
mod nd;
mod normalize;
#[cfg(feature = "npy")]
mod npy;
pub mod operations;
mod operators;
mod parts;
mod pieces;
mod pointwise;
mod pool;
mod program;
mod reading;
mod reduce;
mod reduction;
mod refuse;
mod resample;
mod slice;
mod softmax;
mod spread;
mod stored;
mod sum;
mod table;
mod window;

pub use arrange::ArrangeOps;
pub use attention::{Attention, scaled_dot_product_attention, scaled_dot_product_attention_with};
pub use axes::{Axes, AxisList};
pub use compare::{Comparand, CompareOps, MaskOps, where_};
pub use conv::{Conv, ConvOps, ConvTranspose};
pub use convert::{CastOps, DiscreteOps};
pub use cross_entropy::{ClassTargets, CrossEntropy, one_hot};
pub use derivatives::{DerivativeOps, Numeric};
pub use dl_core::Nothing;
pub use dropout::DropoutOps;
pub use einsum::einsum;
pub use element::{Derivative, Discrete, Element, HasRank, Item, Rank};
pub use expression::{NdExpression, NdLayer, NdWeight};
pub use extreme::ExtremeOps;
pub use index::{IndexOps, Indices};
pub use join::{concat, stack};
#[doc(hidden)] // for the layers of `dl-nn`
pub use like::{along_last, same_shape};
pub use loss::{Bce, LossOps};
pub use matmul::{MatMul, ProductOps};
pub use movement::MovementOps;
pub use nd::{Nd, check_size};
pub use ndarray;
pub use normalize::{NormOps, RunningStats};
#[cfg(feature = "npy")]
pub use npy::NpyItem;
pub use pointwise::PointwiseOps;
pub use pool::{AvgPool, Pool, PoolOps};
pub use reduce::ReduceOps;
pub use reduction::{BatchMean, Each, Mean, Reduction, Sum};
pub use resample::ResampleOps;
pub use slice::SliceOps;
pub use softmax::SoftmaxOps;
pub use spread::SpreadOps;
pub use table::{ByRow, Rows, Table, TableOps};
pub use window::PerAxis;

/// The operations of tensors: `use dl_nd::ops::*` brings all of them into scope.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ops::*};
/// let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(x.matmul(x.t()).mean().predict().wait()?, 13.0_f32);
/// assert_eq!(x.square().sum().predict().wait()?, 30.0);
/// # dl_core::Result::Ok(())
/// ```
pub mod ops {
    pub use crate::{
        ArrangeOps, CastOps, CompareOps, ConvOps, DerivativeOps, DiscreteOps, DropoutOps, ExtremeOps, IndexOps,
        LossOps, MaskOps, MovementOps, NormOps, PointwiseOps, PoolOps, ProductOps, ReduceOps, ResampleOps, SliceOps,
        SoftmaxOps, SpreadOps, TableOps, concat, einsum, scaled_dot_product_attention,
        scaled_dot_product_attention_with, stack, where_,
    };
}
