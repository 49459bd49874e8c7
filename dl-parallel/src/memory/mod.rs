//! Memory pools: cells of a cache line ([`slab`]), small buffers that a thread caches
//! (`size_classes`), and larger ones that all threads share ([`buffers`], which forwards small ones).
//!
//! ```
//! use dl_parallel::memory::{Pooled, buffers};
//!
//! fn ones<A: Pooled + From<u8>>(len: usize) -> Vec<A> {
//!     let mut numbers = buffers::take(len);
//!     numbers.resize(len, A::from(1));
//!     numbers
//! }
//!
//! let numbers = ones::<f32>(100);
//! assert_eq!(numbers.iter().sum::<f32>(), 100.0);
//! buffers::give_back(numbers);
//! dl_parallel::memory::release();
//! ```

pub mod buffers;
pub(crate) mod size_classes;
#[doc(hidden)]
#[cfg_attr(any(shuttle, loom), allow(dead_code, reason = "under a model checker no cell is freed"))]
#[allow(unsafe_code, reason = "slab allocator: see the module")]
pub mod slab;

#[doc(hidden)]
pub use size_classes::{AtHand, Small};

use buffers::{Buffers, Free};
use std::sync::{Mutex, PoisonError};

/// The functions that empty the pools of other crates.
static OTHER_POOLS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Has [`release`] call this function, too, which empties a pool of another crate. It must be
/// called once for each pool.
#[doc(hidden)]
pub fn on_release(empty: fn()) {
    OTHER_POOLS.lock().unwrap_or_else(PoisonError::into_inner).push(empty);
}

/// Returns all pooled buffers, and the memory cached for large graphs and passes, to the allocator.
/// The caches of other threads are not released: usually a few megabytes each, and more after a
/// thread has dropped large graphs in random order, because its free list of nodes is then
/// fragmented.
pub fn release() {
    let others = OTHER_POOLS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    others.iter().for_each(|empty| empty());
    size_classes::release();
    buffers::release_shared();
    slab::release();
}

/// The element types that have pools: `f32`, `f64`, `usize`, `bool` and `u8`.
pub trait Pooled: Copy + Default + Send + Sync + 'static {
    #[doc(hidden)]
    fn large(pools: &mut Free) -> &mut Buffers<Self>;

    #[doc(hidden)]
    fn small(cache: &mut AtHand) -> &mut Small<Self>;
}

macro_rules! pooled {
    ($($T:ident)*) => {$(
        impl Pooled for $T {
            fn large(pools: &mut Free) -> &mut Buffers<$T> {
                &mut pools.$T
            }

            fn small(cache: &mut AtHand) -> &mut Small<$T> {
                &mut cache.$T
            }
        }
    )*};
}

pooled!(f32 f64 usize bool u8);
