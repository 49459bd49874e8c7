//! Fork-join parallelism inside one kernel.
//!
//! A large kernel divides its work into chunks, by the shape of its operands and never by the
//! number of threads, so that its result does not depend on that number. The calling thread works
//! through the chunks, and idle threads help.
//!
//! ```
//! let mut squares = vec![0_u64; 10_000];
//! let mut blocks: Vec<&mut [u64]> = squares.chunks_mut(1_000).collect();
//! dl_parallel::for_each_mut(&mut blocks, 1_000.0, |block, numbers| {
//!     for (i, number) in numbers.iter_mut().enumerate() {
//!         *number = ((1_000 * block + i) as u64).pow(2);
//!     }
//! });
//! assert_eq!(squares[9_999], 9_999 * 9_999);
//! ```
//!
//! The caller never waits for a thread to become free, so a call cannot deadlock, regardless of the
//! locks that the caller holds. The caller takes chunks until none is left and runs nothing else
//! meanwhile. Then it waits only for the chunks that helpers are running at that moment. If one of
//! these is itself divided (a child region), the caller helps with that. Helpers are only *offered*
//! the work, through the injector of the rayon pool and through the [observer](RegionObserver) of the
//! calling thread, the pass that it computes for. A helper that arrives too late finds the region
//! closed and returns.
//!
//! Each thread starts with a contiguous range of chunks of its own and then takes chunks from the
//! ranges of other threads. The assignment of ranges depends on thread indices and not on the
//! caller. Work that is divided in the same way repeatedly, such as the weights in each step,
//! therefore mostly stays in the caches of the same processors.

mod observer;
mod team;

pub use observer::{RegionObserver, observe};
#[cfg(all(test, any(shuttle, loom)))]
pub(crate) use team::shared;
pub use team::{Team, outside_team};

use crate::sync::current_num_threads;
use crate::thresholds::THREAD_NS;
use observer::with_observer;
use team::{TeamWork, preferred_range, range_start, run_team};

/// Calls `work` once for each of `chunks` chunks. `nanoseconds_each` is the estimated time of a
/// chunk; if all chunks together take less than about 20 µs, they run on the calling thread. The
/// number of threads at work, including the caller, is at most the size of the rayon pool, unless a
/// thread from outside the pool divides a chunk.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let sum = AtomicUsize::new(0);
/// dl_parallel::for_each(100, 1_000.0, |chunk| {
///     sum.fetch_add(chunk, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
///
/// # Panics
/// If a chunk panics, with the payload of the first such chunk. No chunk is running by then, and
/// later chunks may have been skipped.
pub fn for_each(chunks: usize, nanoseconds_each: f64, work: impl Fn(usize) + Sync) {
    match workers(chunks, nanoseconds_each) {
        (0 | 1, _) => (0..chunks).for_each(work),
        (workers, threads) => {
            with_observer(|observer| run_team(chunks, workers - 1, threads, TeamWork { work: &work, observer }));
        }
    }
}

/// Whether [`for_each`] would offer these chunks to other threads. If not, a caller can avoid
/// separate buffers for the result of each chunk. The result must be the same.
///
/// ```
/// use dl_parallel::is_divided;
/// assert!(!is_divided(100, 10.0), "a microsecond is not worth it");
/// ```
pub fn is_divided(chunks: usize, nanoseconds_each: f64) -> bool {
    workers(chunks, nanoseconds_each).0 > 1
}

/// The number of threads to use for these chunks, and the size of the pool if that number is more
/// than 1.
fn workers(chunks: usize, nanoseconds_each: f64) -> (usize, usize) {
    let nanoseconds = chunks as f64 * nanoseconds_each;
    if chunks < 2 || !is_worth_sharing(nanoseconds) {
        return (1, 1);
    }
    let threads = current_num_threads();
    (threads.min(chunks).min((nanoseconds / THREAD_NS) as usize), threads)
}

/// Whether this much work is worth a second thread.
#[inline]
pub fn is_worth_sharing(nanoseconds: f64) -> bool {
    nanoseconds >= 2.0 * THREAD_NS
}

/// [`for_each`] over the elements of a slice, with exclusive access to each.
///
/// ```
/// let mut words = ["one".to_owned(), "two".to_owned()];
/// dl_parallel::for_each_mut(&mut words, 10_000.0, |number, word| word.insert_str(0, ["1 ", "2 "][number]));
/// assert_eq!(words, ["1 one", "2 two"]);
/// ```
///
/// # Panics
/// If a chunk panics: see [`for_each`].
pub fn for_each_mut<T: Send>(chunks: &mut [T], nanoseconds_each: f64, work: impl Fn(usize, &mut T) + Sync) {
    struct SlicePtr<T>(*mut T);

    impl<T> SlicePtr<T> {
        fn at(&self, index: usize) -> *mut T {
            self.0.wrapping_add(index)
        }
    }

    // SAFETY: used only to access each element from one thread at a time, and `T` is `Send`.
    unsafe impl<T: Send> Sync for SlicePtr<T> {}

    let (len, chunks) = (chunks.len(), SlicePtr(chunks.as_mut_ptr()));
    for_each(len, nanoseconds_each, |index| {
        // SAFETY: `for_each` passes each index below `len` once, so the access is exclusive. The
        // slice is borrowed until `for_each` returns, and no chunk is running by then.
        work(index, unsafe { &mut *chunks.at(index) });
    });
}

/// The first chunk that this thread would take.
pub fn first_chunk_of_this_thread(chunks: usize, nanoseconds_each: f64) -> usize {
    match workers(chunks, nanoseconds_each).0 {
        0 | 1 => 0,
        workers => range_start(preferred_range(workers), workers, chunks),
    }
}
