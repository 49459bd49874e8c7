//! Where threads meet: the primitives of the standard library and of rayon, or those of a model
//! checker.
//!
//! Under `--cfg shuttle` the whole executor runs on `shuttle`, which tries thousands of
//! interleavings; under `--cfg loom` the counts and the claims run on `loom`, which tries all of
//! them, and all that the memory model of the language allows (see `model`).
//!
//! Besides the names of the standard library there are a few that the checkers cannot do without.
//! [`globals`] are statics that begin anew in every execution; [`thread_local`] belongs to a thread
//! of the checker; [`spins`] says how often to spin, which a checker need not do often, and
//! [`Patience`] how long to wait, as it knows no time; [`Guarded`] sits in what is freed by hand.

#[cfg(not(any(shuttle, loom)))]
mod real {
    pub(crate) use rayon::{current_num_threads, current_thread_index, spawn};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::sync::{Mutex, MutexGuard, TryLockError};
    pub(crate) use std::thread::{Thread, current, park, yield_now};
    pub(crate) use std::thread_local;
    use std::time::{Duration, Instant};

    /// Does a job that waits in the pool. Says whether there was one.
    pub(crate) fn give_way() -> bool {
        rayon::yield_now() == Some(rayon::Yield::Executed)
    }

    macro_rules! globals {
        ($($item:item)*) => { $($item)* };
    }
    pub(crate) use globals;

    macro_rules! array_of {
        ($new:expr; $len:expr) => {
            [const { $new }; $len]
        };
    }
    pub(crate) use array_of;

    pub(crate) const fn spins(often: usize) -> usize {
        often
    }

    /// How long somebody has been waiting.
    pub(crate) struct Patience(Instant);

    impl Patience {
        pub(crate) fn new() -> Self {
            Patience(Instant::now())
        }

        pub(crate) fn lasts(&self, longest: Duration) -> bool {
            self.0.elapsed() < longest
        }
    }

    /// Costs nothing. A checker sees by it whether somebody uses what is gone.
    pub(crate) struct Guarded;

    impl Guarded {
        #[inline(always)]
        pub(crate) const fn new() -> Self {
            Guarded
        }

        /// Somebody uses it.
        #[inline(always)]
        pub(crate) fn used(&self) {}

        /// It is about to be freed.
        #[inline(always)]
        pub(crate) fn gone(&self) {}
    }
}

#[cfg(not(any(shuttle, loom)))]
pub(crate) use real::*;

#[cfg(loom)]
pub(crate) use loom as checker;
#[cfg(shuttle)]
pub(crate) use shuttle as checker;

#[cfg(any(shuttle, loom))]
mod checked;
#[cfg(any(shuttle, loom))]
pub(crate) use checked::*;
#[cfg(shuttle)]
pub(crate) mod pool;
#[cfg(shuttle)]
pub(crate) use pool::{current_num_threads, current_thread_index, spawn};
