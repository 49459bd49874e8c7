//! The typed API: layers, weights, computations.

pub(crate) mod applied;
pub(crate) mod buffer;
pub(crate) mod built_in;
pub(crate) mod checkpoint;
pub(crate) mod compiled;
pub(crate) mod deferred;
pub(crate) mod differentiable;
pub(crate) mod extract;
pub(crate) mod extractable;
pub(crate) mod finite;
pub(crate) mod gradient;
mod gradients;
pub(crate) mod handle;
pub(crate) mod join;
mod jvp;
pub(crate) mod layer;
mod number_operands;
pub(crate) mod operators;
pub(crate) mod parts;
pub(crate) mod pointwise;
pub(crate) mod primitive;
pub(crate) mod scalar;
pub(crate) mod snapshot;
pub(crate) mod tape;
pub(crate) mod variables;
pub(crate) mod weight;
pub(crate) mod with_rule;
