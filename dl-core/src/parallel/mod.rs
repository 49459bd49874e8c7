//! Threads and memory: the seam for model checkers, fork-join, the job injector, memory pools.

#[allow(unsafe_code, reason = "helpers borrow from the caller, who waits for them: see the module")]
pub(crate) mod fork_join;
pub(crate) mod injector;
pub mod memory;
pub(crate) mod panic_payload;
pub(crate) mod sync;

pub use fork_join::{for_each, for_each_mut, is_divided};
