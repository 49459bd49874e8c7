//! The optimizers of `dl`: how weights learn from their deltas.
//!
//! Users add the `monadic-dl` package (`use dl::prelude::*`), which re-exports all of this.
//!
//! - [`Sgd`], [`Adam`], [`AdamW`], …: the rules;
//! - [`OptimizerExt`], [`plugins`]: transformations of the deltas on their way to a rule;
//! - [`Groups`], [`ByPath`]: rules by weight;
//! - [`Lbfgs`]: a minimization in whole, with a line search;
//! - [`Ema`]: an exponential moving average of the weights;
//! - [`schedule`]: learning rates by step.
//!
//! The trait [`Optimizer`](dl_core::Optimizer) and the state of optimizers are in `dl_core`.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::{AdamW, OptimizerExt, schedule::Cosine};
//! let w = Weight::new(1.0_f64);
//! let optimizer = AdamW::new(Cosine::new(0.1, 100)).clip_norm(1.0).refuse_non_finite();
//! (&w * &w).train(&optimizer).wait()?;
//! assert!(w.value() < 1.0);
//! # dl_core::Result::Ok(())
//! ```

#![forbid(unsafe_code)]

mod adadelta;
mod adagrad;
mod adam;
mod ema;
mod groups;
mod groups_by_path;
mod lbfgs;
mod lion;
mod nadam;
mod radam;
mod rms_prop;
mod rule;
pub mod schedule;
mod sgd;
#[doc(hidden)]
pub mod transform;
mod validate;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW};
pub use ema::Ema;
pub use groups::Groups;
pub use groups_by_path::ByPath;
pub use lbfgs::{Ending, Lbfgs, Minimum};
pub use lion::Lion;
pub use nadam::NAdam;
pub use radam::RAdam;
pub use rms_prop::RmsProp;
pub use schedule::Schedule;
pub use sgd::Sgd;
#[doc(inline)]
pub use transform as plugins;
pub use transform::ext::OptimizerExt;
