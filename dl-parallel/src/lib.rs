//! The threads and the memory of `dl`: one kernel on several threads, and pools of buffers.
//!
//! Users add the `monadic-dl` package (`use dl::prelude::*`), which re-exports this crate as
//! `dl::parallel` and [`buffers`] as `dl::buffers`.
//!
//! - [`for_each`], [`for_each_mut`], [`is_divided`]: loops over the chunks of a kernel;
//! - [`buffers`]: large buffers that all threads share, small ones that a thread caches;
//! - [`memory`]: all pools, and how to empty them.
//!
//! The other modules serve the executor in `dl-core`. This crate knows no pass: it reaches the
//! executor through a [`RegionObserver`](fork_join::RegionObserver) and the hooks in [`memory`].
//!
//! ```
//! let mut squares: Vec<u64> = (0..1_000).collect();
//! dl_parallel::for_each_mut(&mut squares, 50.0, |_, number| *number *= *number);
//! assert_eq!(squares[30], 900);
//! ```

#![deny(unsafe_code)]

#[allow(clippy::new_without_default, reason = "`new` is `const` where the checkers permit it")]
#[doc(hidden)]
pub mod sync;

#[doc(hidden)]
pub mod panic_payload;
#[doc(hidden)]
pub mod thread_number;
#[doc(hidden)]
pub mod thresholds;

#[doc(hidden)]
pub mod backoff;
#[doc(hidden)]
pub mod concurrency;

#[doc(hidden)]
pub mod injector;

#[allow(unsafe_code, reason = "helpers borrow from the caller, who waits for them: see the module")]
#[doc(hidden)]
pub mod fork_join;

pub mod memory;

#[cfg(any(shuttle, loom))]
#[doc(hidden)]
pub mod model;

pub use fork_join::{for_each, for_each_mut, is_divided};
pub use memory::buffers;
