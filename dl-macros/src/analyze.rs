//! Decides how to rewrite a body, without changing it.
//!
//! Results are data. They refer to expressions by [`NodeId`](crate::parse::node::NodeId). This
//! module uses `parse`, and never `expand`.
//!
//! - `control_flow`: the reads and writes of variables, and the jumps between them.
//! - `liveness`: the operands of operators that are live-out and must be duplicated.
//! - `joins`: the extractions (`!x`) and the groups of them that run together; `operand_effects`
//!   and `opaque_macros` answer questions for it.
//! - `results`: the expressions whose value the body returns.
//! - `branches`: the branches that depend on an extracted value, with their text (`source_text`).

pub(crate) mod branches;
pub(crate) mod control_flow;
pub(crate) mod joins;
pub(crate) mod liveness;
mod opaque_macros;
mod operand_effects;
mod results;
mod source_text;
