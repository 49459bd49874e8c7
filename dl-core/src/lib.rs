//! The core of `dl`: layers, weights, deferred computations, the executor, automatic
//! differentiation. It has no tensor type.
//!
//! Programs depend on the `monadic-dl` package (`use dl::prelude::*`), which re-exports this crate.
//!
//! ```
//! use dl_core::{Differentiable, Layer, Weight};
//! use dl_optim::Sgd;
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
//! | feature | adds |
//! |---|---|
//! | `tracing` | passes, kernels and steps as spans of the `tracing` crate: see [`record`] |

#![deny(unsafe_code)]

pub(crate) mod error;

pub(crate) mod graph;

pub(crate) mod exec;
pub mod record;

pub(crate) mod autodiff;

pub(crate) mod plan;

pub(crate) mod step;

pub(crate) mod api;

#[doc(hidden)]
pub mod macro_support;

pub mod module;
pub(crate) mod storage;

#[cfg(all(test, any(shuttle, loom)))]
mod model;
#[cfg(test)]
mod testing;

pub use error::branch::Branch;
pub use error::call_stack::{Call, Calls};
pub use error::data::{ErrorClass, ErrorData, PlaceData};
pub use error::{Error, Result};

pub use dl_math::{
    Algebra, Binary, BinaryLoop, Dual, Elementary, Fused, Native, Number, Term, Unary, UnaryLoop, Unfused, instructions,
};
#[doc(hidden)]
pub use dl_math::{simd, unary_operations};

/// Sums over the parts of a batch, for crates that distribute the parts.
#[doc(hidden)]
pub mod parts {
    pub use crate::api::parts::{part_seed, total};
    pub use crate::api::pass_context::PassContext;
    pub use crate::autodiff::part_sum::{NodeSums, PartSum};
    pub use crate::autodiff::tree_sum::{Additions, TreeNode, additions};
    pub use crate::exec::block_on::{ANSWERS, work_on};
    pub use crate::module::deltas::NamedValue;
    pub use crate::module::ranks::{OneRank, Ranks, RanksStep};
    pub use crate::module::{DenseWeights, ElsewhereEntry};
    pub use crate::storage::row::Row;
    pub use crate::storage::wire::Wire;
}

/// Loops over the chunks of one kernel, on several threads.
#[doc(hidden)]
pub mod parallel {
    pub use dl_parallel::{backoff, for_each, for_each_mut, is_divided, memory};
}

pub use dl_parallel::buffers;

#[doc(hidden)]
pub use graph::data::ShapeList;
pub use graph::data::{Data, Trainable};
pub use graph::delta::{Delta, Nothing};
pub use graph::seed::Seed;
#[doc(hidden)]
pub use graph::value::Value;

#[doc(hidden)]
pub use exec::later::later;
pub use exec::run::Run;
pub use exec::{Counters, Mode};

pub use autodiff::gradients::SideEffects;

pub use graph::chunk::Chunk;
#[doc(hidden)]
pub use graph::chunk::{ChunkElement, scaled_norm};
#[doc(hidden)]
pub use graph::lazy_chunk::{LaterNumber, LazyNumbers, PlacedChunk};
pub use graph::lazy_chunk::{Lazy, LazyChunk};
#[doc(hidden)]
pub use graph::training_step::ChunkVisitor;
pub use graph::training_step::Step;
pub use step::memory::{Memory, Notes};
pub use step::optimizer::Optimizer;
pub use step::state::{NewState, OptimizerState};

pub use api::buffer::Buffer;
#[doc(hidden)]
pub use api::built_in::{BuiltIn, CotangentSink, Immediate, Others};
pub use api::compiled::{CompiledArgument, CompiledPlans, CompiledResult, compiled_functions};
pub use api::deferred::Do;
pub use api::differentiable::Differentiable;
pub use api::extract::Extract;
pub use api::gradient::derivative;
pub use api::operators::{LeftOperand, Operand, logaddexp, max, min, pow, xlogy};
#[doc(hidden)]
pub use api::operators::{OperatorWith, RightOfNumber};
pub use api::parts::Parts;
pub use api::primitive::{Along, At, Deltas, Operands, Primitive};
pub use api::tape::Tape;
pub use api::variables::{EachVariable, Variables};
pub use api::weight::Weight;
pub use api::with_rule::with_rule;
pub use exec::snapshot::Snapshot;
#[doc(hidden)]
pub use graph::basic_block::{
    BasicBlock, BlockInstruction, BlockKernel, BlockOp, BlockRead, BlockView, ElementType, Elements, Part,
};
pub use graph::layer::Layer;
pub use graph::participant::Participant;
pub use graph::pointwise::Pointwise;
#[doc(hidden)]
pub use graph::pointwise::PointwiseOp;
pub use graph::weight::{Slot, WeightHandle, WeightId};

#[doc(hidden)]
pub use macro_support as bang;

pub use module::{Entry, Module, NewValue, Summary, Torch, Visitor};
#[doc(hidden)]
pub use storage::atomic_file as files;
pub use storage::numbers::{DType, DeltaNumbers, Numbers, Stored, StoredElement};
