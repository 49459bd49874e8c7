//! Differentiation of evaluated graphs: reverse mode, forward mode, rematerialization.
//!
//! The reverse pass (`reverse`) reads the pullback rules in three ways: staged as graph nodes
//! (`reverse`), in plain numbers (`scalar`), or in values, in immediate mode (`eager`,
//! `immediate`). `accumulator` sums the cotangents of a node. Forward mode (`forward`) transposes the same
//! rules. `part_sum` adds the gradients of the parts of a batch along the tree of `tree_sum`.
//! `remat_group` and `optional_cotangent` handle checkpoint segments with discarded values.

pub(crate) mod accumulator;
pub(crate) mod cotangent;
pub(crate) mod custom_backward;
pub(crate) mod derivatives;
mod eager;
pub(crate) mod forward;
mod fused_sum;
pub(crate) mod gradients;
pub(crate) mod immediate;
pub(crate) mod optional_cotangent;
pub(crate) mod part_sum;
pub(crate) mod remat_group;
pub(crate) mod reverse;
pub(crate) mod scalar;
pub(crate) mod tree_sum;
