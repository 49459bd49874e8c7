//! Rewrites a body as the analysis says, and builds the function around it.
//!
//! Each rule shows its input and output. This module uses `analyze` and `parse`.
//!
//! - `duplicate`: duplicates operands that are live-out.
//! - `extract`: rewrites `!x`, `?` and `return` of lazy bodies.
//! - `branch_trace`: instruments branches, so that a recorded pass knows which arm was taken.
//! - `receiver`: renames `self` in lazy bodies.
//! - `not_hints`: makes a `!` that extracts nothing explain itself in a compile error.
//! - `call_frame`: records the call of the function for error messages.
//! - `compiled_fn`: makes the body of a function with the option `compiled` a call of its plan.
//! - `plain_fn`, `lazy_fn`, `direct_block`: the function, or the block, around the body.

pub(crate) mod branch_trace;
pub(crate) mod call_frame;
pub(crate) mod compiled_fn;
pub(crate) mod direct_block;
pub(crate) mod duplicate;
pub(crate) mod extract;
pub(crate) mod lazy_fn;
pub(crate) mod not_hints;
pub(crate) mod plain_fn;
pub(crate) mod receiver;
