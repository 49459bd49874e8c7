//! Differentiable tensors on [`ndarray`]: the data type [`Nd`], its layers and weights, and the
//! operations of networks.
//!
//! Users add the `monadic-dl` package (`use dl::prelude::*`), which re-exports all of this.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::Sgd;
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
//! # Terms
//!
//! - *rank*: the number of axes. It is part of the type: `Ix0` to `Ix6`, or `IxDyn` for a rank
//!   known at run time only. See [`Rank`].
//! - *broadcasting*: NumPy's rule for operands of unequal shapes. Shapes are aligned at their last
//!   axes; missing axes and axes of length 1 are repeated. The gradient of a repeated operand is
//!   summed over the repeated axes.
//! - *table*: an embedding matrix with a sparse delta. A training step reads and updates some of
//!   its rows only. See [`Table`].
//!
//! This crate contains no data sets and no modules. Operands of rank `IxDyn` are checked at run
//! time, not by the compiler.
//!
//! # Features
//!
//! | feature | provides |
//! |---|---|
//! | `npy` | `.npy` files: `Nd::read_npy`, `Nd::write_npy` |

#![deny(unsafe_code)]

// bottom to top: a module uses only the modules listed before it
pub mod device;

mod tensor;

pub mod init;

mod fusion;

#[allow(unsafe_code, reason = "kernels work on raw pointers, which views have checked: see the module")]
mod gemm;

mod kernels;

pub mod ops;

mod io;

#[cfg(all(debug_assertions, not(test)))]
#[doc(hidden)] // for crates that are built without optimisation
pub mod instances;

pub use dl_core::Nothing;
pub use ndarray;

pub use tensor::{Derivative, Discrete, Element, HasRank, Item, Nd, NdExpression, NdLayer, NdWeight, Rank, check_size};

pub use ops::argmax::ExtremeOps;
pub use ops::attention::{Attention, scaled_dot_product_attention, scaled_dot_product_attention_with};
pub use ops::axes::{Axes, AxisList, Permutation};
pub use ops::catalog as operations;
pub use ops::compare::{Comparand, CompareOps, MaskOps, where_};
pub use ops::conv::{Conv, ConvOps, ConvTranspose};
pub use ops::convert::{CastOps, DiscreteOps};
pub use ops::cross_entropy::{ClassTargets, CrossEntropy, one_hot};
pub use ops::ctc::Ctc;
pub use ops::derivatives::{DerivativeOps, Numeric};
pub use ops::dropout::DropoutOps;
pub use ops::einsum::einsum;
pub use ops::embedding::{ByRow, Rows, Table, TableOps};
#[doc(hidden)] // for the layers of `dl-nn`
pub use ops::expand_as::{along_last, same_shape};
pub use ops::index::{IndexOps, Indices};
pub use ops::interpolate::ResampleOps;
pub use ops::join::{concat, stack};
pub use ops::loss::{Bce, LossOps};
pub use ops::loss_reduction::{BatchMean, Each, LossReduction, Mean, Reduction, Sum};
pub use ops::matmul::{MatMul, ProductOps};
pub use ops::normalize::{NormOps, RunningStats};
pub use ops::pad::PadMode;
pub use ops::pointwise::PointwiseOps;
pub use ops::pool::{AvgPool, Pool, PoolOps};
pub use ops::rearrange::ArrangeOps;
pub use ops::reduce::{NumberOps, ReduceOps};
pub use ops::reshape::{INFER, MovementOps};
pub use ops::scan::ScanOps;
pub use ops::similarity::cosine_similarity;
pub use ops::slice::SliceOps;
pub use ops::softmax::SoftmaxOps;
pub use ops::sort::{SortOps, WithIndices};
pub use ops::transfer::{MoveModule, TransferOps};
pub use ops::variance::SpreadOps;
pub use ops::window::PerAxis;
#[doc(hidden)] // for the layers of `dl-nn`
pub use tensor::row_major_copy;

#[cfg(feature = "npy")]
pub use io::npy::NpyItem;
