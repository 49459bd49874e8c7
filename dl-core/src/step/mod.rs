//! The training step: the optimizer trait, optimizer state, and the commit.

pub(crate) mod commit;
pub(crate) mod memory;
pub(crate) mod optimizer;
pub(crate) mod state;
pub(crate) mod step_delta;
