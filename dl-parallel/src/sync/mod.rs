//! The synchronization primitives: those of the standard library and of rayon, or those of a model
//! checker.
//!
//! Under `--cfg shuttle` the whole executor runs on `shuttle`, which tries thousands of random
//! interleavings. Under `--cfg loom` the reference counts and the owner stamps run on `loom`, which
//! tries all interleavings and all behaviours that the memory model of Rust permits (see `model`).
//!
//! A crate whose code runs in a model takes these, and nothing of the same names from elsewhere.
//!
//! A few items have no counterpart in the standard library, and exist for the checkers:
//! - [`globals`] are statics that are initialized anew in every execution.
//! - [`thread_local`] belongs to a thread of the checker.
//! - [`spins`] limits spinning, which a checker needs only briefly.
//! - [`Deadline`] limits waiting, since a checker has no clock.
//! - [`Guarded`] is a field of objects that are freed manually.

#[cfg(not(any(shuttle, loom)))]
mod real {
    pub use rayon::{current_num_threads, current_thread_index, spawn};
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::sync::{Mutex, MutexGuard, TryLockError};
    pub use std::thread::{Thread, current, park, yield_now};
    pub use std::thread_local;
    use std::time::{Duration, Instant};

    /// Runs a pending job of the pool. Returns whether there was one.
    pub fn give_way() -> bool {
        rayon::yield_now() == Some(rayon::Yield::Executed)
    }

    #[doc(hidden)]
    #[macro_export]
    macro_rules! std_globals {
        ($($item:item)*) => { $($item)* };
    }
    pub use crate::std_globals as globals;

    #[doc(hidden)]
    #[macro_export]
    macro_rules! std_array_of {
        ($new:expr; $len:expr) => {
            [const { $new }; $len]
        };
    }
    pub use crate::std_array_of as array_of;

    pub const fn spins(often: usize) -> usize {
        often
    }

    /// Measures the time of a wait.
    pub struct Deadline(Instant);

    impl Deadline {
        pub fn new() -> Self {
            Deadline(Instant::now())
        }

        pub fn lasts(&self, longest: Duration) -> bool {
            self.0.elapsed() < longest
        }
    }

    /// A zero-sized marker. In a checker it detects use after free.
    pub struct Guarded;

    impl Guarded {
        #[inline(always)]
        pub const fn new() -> Self {
            Guarded
        }

        /// Records a use.
        #[inline(always)]
        pub fn used(&self) {}

        /// Records that the object is about to be freed.
        #[inline(always)]
        pub fn gone(&self) {}
    }
}

#[cfg(not(any(shuttle, loom)))]
pub use real::*;

#[cfg(loom)]
pub use loom as checker;
#[cfg(shuttle)]
pub use shuttle as checker;

#[cfg(any(shuttle, loom))]
mod checked;
#[cfg(any(shuttle, loom))]
pub use checked::*;
#[cfg(shuttle)]
pub mod pool;
#[cfg(shuttle)]
pub use pool::{current_num_threads, current_thread_index, spawn};
