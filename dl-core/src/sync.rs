//! Where threads meet: the primitives of the standard library and of rayon, or those of the model checker.
//!
//! Under `--cfg shuttle` the whole executor runs on `shuttle`, which tries thousands of interleavings (see `tests/model.rs`).

#[cfg(not(shuttle))]
mod real {
    pub(crate) use rayon::{current_num_threads, current_thread_index, spawn};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::sync::{Mutex, MutexGuard, TryLockError};
    pub(crate) use std::thread::{Thread, current, park};
}

#[cfg(not(shuttle))]
pub(crate) use real::*;
