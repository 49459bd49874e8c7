//! Differentiable tensors on [`ndarray`]: the data type [`Nd`], its layers and weights, and the operations of networks.
//!
//! Users add the `monadic-dl` package (`use dl::prelude::*`), which re-exports all of this.
//!
//! ```
//! use dl_core::{Differentiable, Sgd, Weight};
//! use dl_nd::{Nd, NdLayer, NdOps, NdWeight, init};
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
//! - *rank*: the number of axes. It is part of the type (`Ix0` to `Ix6`); `IxDyn` leaves it open. See [`Rank`].
//! - *broadcasting*: NumPy's rule for operands of unequal shapes. They are aligned at their last axes; missing axes, and axes
//!   of length 1, are repeated. The gradient of a repeated operand is summed back to its shape.
//!
//! What it does not do: it knows no data sets and no modules, and it does not check ranks that were declared open before it runs.

#![forbid(unsafe_code)]

mod broadcast;
mod conv;
mod element;
mod expression;
pub mod init;
mod loss;
mod matmul;
mod movement;
mod nd;
mod operators;
mod ops;
mod pointwise;
mod pool;
mod reduce;
mod resample;
mod select;
mod softmax;
mod window;

pub use conv::{Conv, ConvOps, ConvTranspose};
pub use element::{Element, HasRank, Rank};
pub use expression::{NdExpression, NdLayer, NdWeight};
pub use loss::{Labels, one_hot};
pub use matmul::MatMul;
pub use nd::Nd;
pub use ndarray;
pub use ops::NdOps;
pub use pool::{AvgPool, Pool, PoolOps};
pub use resample::ResampleOps;
pub use window::PerAxis;
