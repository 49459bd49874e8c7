//! The runtime of `dl`: layers, weights, deferred computations, the executor, the reverse pass. It
//! knows no tensors.
//!
//! Users add the `monadic-dl` package (`use dl::prelude::*`), which re-exports all of this.
//!
//! ```
//! use dl_core::{Differentiable, Layer, Sgd, Weight};
//!
//! fn guess_next_number(question: &[f64], weights: &[Weight<f64>], bias: &Weight<f64>) -> Layer<f64> {
//!     question.iter().zip(weights).map(|(&x, w)| x * w).sum::<Layer<f64>>() + bias
//! }
//!
//! let weights = [1.0, 0.0, 0.5].map(Weight::new);
//! let bias = Weight::new(0.0);
//! let robot = guess_next_number(&[3.0, 6.0, 9.0], &weights, &bias);
//! assert_eq!(robot.predict().wait()?, 7.5);
//!
//! let difference = &robot - 12.0;
//! let loss = &difference * &difference;
//! for _ in 0..50 {
//!     loss.train(&Sgd::new(0.005)).wait()?;
//! }
//! assert!((robot.predict().wait()? - 12.0).abs() < 1e-6);
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | passes, kernels and steps as spans of the crate of that name: see [`record`] |

#![deny(unsafe_code)]

#[doc(hidden)]
pub mod bang;
mod buffer;
pub mod buffers;
mod calls;
mod checkpoint;
mod commit;
mod data;
mod deferred;
mod delta;
mod differentiable;
mod dual;
mod error;
mod extract;
#[doc(hidden)]
pub mod files;
mod finite;
mod forward;
mod gradient;
mod layer;
#[cfg(all(test, any(shuttle, loom)))]
mod model;
pub mod module;
mod node;
mod offer;
mod operators;
mod optimizer;
#[allow(unsafe_code, reason = "helpers borrow from the caller, who waits for them: see the module")]
pub mod parallel;
mod pass;
mod primitive;
pub mod record;
mod reverse;
mod rules;
mod scalar;
pub mod schedule;
mod seed;
mod setting;
mod side_effects;
#[doc(hidden)]
pub mod simd;
mod snapshot;
mod stored;
mod sync;
mod tape;
mod value;
mod variable;
mod variables;
mod weight;
mod with_rule;

pub use buffer::Buffer;
pub use calls::{Branch, Call, Calls};
pub use data::{Data, Trainable};
pub use deferred::{Do, Run};
pub use delta::{Delta, Nothing};
pub use differentiable::Differentiable;
pub use dual::Dual;
pub use error::{Error, Result};
pub use extract::Extract;
pub use gradient::derivative;
pub use layer::Layer;
pub use module::{Entry, Module, NewValue, Summary, Visitor};
pub use operators::{LeftOperand, Operand, max, min, pow, xlogy};
pub use optimizer::{
    Adadelta, Adagrad, Adam, AdamW, ByPath, Chunk, Ema, Groups, Lion, Memory, NAdam, NewState, Notes, Optimizer,
    OptimizerState, RAdam, RmsProp, Sgd, Slot, Step, plugins,
};
pub use pass::{Counters, Mode};
pub use primitive::{Along, At, Deltas, Now, Operands, Others, Primitive};
#[doc(hidden)]
pub use reverse::Sums;
pub use rules::{
    Algebra, Binary, BinaryLoop, Elementary, Fused, Native, Number, Pointwise, Term, Unary, UnaryLoop, Unfused,
};
pub use schedule::Schedule;
pub use seed::Seed;
pub use side_effects::SideEffects;
pub use simd::instructions;
pub use snapshot::Snapshot;
pub use stored::{DType, Numbers, Stored, StoredElement};
pub use tape::Tape;
#[doc(hidden)]
pub use value::Value;
pub use variables::{EachVariable, Variables};
pub use weight::{Weight, WeightHandle, WeightId};
pub use with_rule::with_rule;
