//! Models of the executor: small programs that a model checker runs many times, each time with another
//! interleaving of the threads. See `dl_parallel::model`.
//!
//! Under `shuttle` a model runs the whole executor with its own pool. Under `loom` only reference
//! counts, replicas, stamps and commits are modelled.
//!
//! `loom` lets an acquire fence synchronize with values that an earlier thread has read relaxed, so
//! the `AcqRel` of [`make_strict`](crate::graph::node) is justified by reasoning only.

#[cfg(shuttle)]
mod checkpoints;
mod counts;
mod leaves;
#[cfg(shuttle)]
mod passes;
#[cfg(shuttle)]
mod small;
mod snapshots;
mod stamps;
#[cfg(shuttle)]
mod steps;
#[cfg_attr(loom, allow(dead_code, reason = "kernels are used by models of passes"))]
mod tracked;
#[cfg(shuttle)]
mod wakes;

use dl_parallel::model::{Part, eventually, explore, together};
use dl_parallel::sync::checker::thread;
