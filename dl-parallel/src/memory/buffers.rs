//! A pool of large buffers, shared by all threads.
//!
//! Getting a tensor of several megabytes from the system, page by page, costs more than computing
//! it; getting thousands of tensors of several bytes from the allocator does, too. So a type with
//! buffers returns them to the pool when it is dropped, and kernels take buffers of a fitting size
//! from it, in the same pass or in a later one. Large buffers are shared by all threads. Small ones
//! are cached per thread (`size_classes`).
//!
//! ```
//! use dl_parallel::buffers;
//! let mut buffer: Vec<f32> = buffers::take(100_000);
//! buffer.resize(100_000, 0.0);
//! let place = buffer.as_ptr();
//! buffers::give_back(buffer);
//! assert_eq!(buffers::take::<f32>(100_000).as_ptr(), place);
//! buffers::release();
//! ```

pub use crate::memory::release;
#[doc(hidden)]
pub use crate::memory::size_classes::{AtHand, Small};

use crate::memory::{Pooled, size_classes};
use crate::thresholds::{POOLED_BYTES, SMALL_BUFFER_BYTES};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The free large buffers.
///
/// ```
/// dl_parallel::buffers::release(); // frees all pooled buffers
/// ```
#[doc(hidden)]
#[derive(Default)]
pub struct Free {
    pub(crate) f32: Buffers<f32>,
    pub(crate) f64: Buffers<f64>,
    pub(crate) usize: Buffers<usize>,
    pub(crate) bool: Buffers<bool>,
    pub(crate) u8: Buffers<u8>,
    bytes: usize,
}

/// The free large buffers of one element type.
///
/// ```
/// let buffer: Vec<f64> = dl_parallel::buffers::take(10_000);
/// assert!(buffer.capacity() >= 10_000);
/// dl_parallel::buffers::give_back(buffer);
/// ```
#[doc(hidden)]
#[derive(Default)]
pub struct Buffers<A> {
    /// In the order of their return, the most recent last.
    free: Vec<Vec<A>>,
    /// The number of buffers of each capacity that were taken and not returned. Buffers from
    /// elsewhere are not accepted, because they would accumulate here.
    taken: BTreeMap<usize, usize>,
}

impl<A> Buffers<A> {
    const fn new() -> Self {
        Buffers { free: Vec::new(), taken: BTreeMap::new() }
    }

    fn take(&mut self, len: usize) -> Option<Vec<A>> {
        let place = self.free.iter().rposition(|buffer| (len..=len + len / 4).contains(&buffer.capacity()));
        let buffer = place.map(|place| self.free.remove(place));
        if self.taken.len() >= MAX_COUNTED_SIZES {
            self.taken.clear();
        }
        *self.taken.entry(buffer.as_ref().map_or(with_slack::<A>(len), Vec::capacity)).or_default() += 1;
        buffer
    }

    /// Whether a buffer of this capacity is owed. Counts it as returned.
    fn take_back(&mut self, capacity: usize) -> bool {
        let Some(taken) = self.taken.get_mut(&capacity) else { return false };
        *taken -= 1;
        if *taken == 0 {
            self.taken.remove(&capacity);
        }
        true
    }
}

/// The extra capacity of a large buffer: a cache line, so that users can align the data within it.
const SLACK_BYTES: usize = 64;

/// The maximum number of capacities that are counted.
const MAX_COUNTED_SIZES: usize = 1 << 10;

static FREE: Mutex<Free> = Mutex::new(Free {
    f32: Buffers::new(),
    f64: Buffers::new(),
    usize: Buffers::new(),
    bool: Buffers::new(),
    u8: Buffers::new(),
    bytes: 0,
});

fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty vector with a capacity for `len` numbers: a pooled buffer of about that size, or a new
/// one.
///
/// # Panics
/// If there is not enough memory. In a kernel, the panic becomes an error of the pass.
pub fn take<A: Pooled>(len: usize) -> Vec<A> {
    match find(len) {
        Some(mut buffer) => {
            buffer.clear();
            buffer
        }
        None => new(len),
    }
}

/// A vector of `len` numbers with unspecified contents, which the caller must overwrite.
///
/// ```
/// assert_eq!(dl_parallel::buffers::take_filled::<f32>(100_000).len(), 100_000);
/// ```
///
/// # Panics
/// If there is not enough memory.
pub fn take_filled<A: Pooled>(len: usize) -> Vec<A> {
    match find_filled(len) {
        Some(buffer) => buffer,
        None if is_shared::<A>(len) => {
            drop(new::<A>(len)); // `vec!` would abort
            let mut new = vec![A::default(); with_slack::<A>(len)];
            new.truncate(len);
            new
        }
        None => {
            let mut new = new(len);
            new.resize(len, A::default());
            new
        }
    }
}

/// [`take_filled`], or `None` if there is not enough memory. If the buffer is new, `before` is
/// called with its whole memory, which may be larger than requested, before it is first written.
///
/// ```
/// assert_eq!(dl_parallel::buffers::try_take_filled::<f32>(100_000, |_| {}).expect("memory").len(), 100_000);
/// ```
#[must_use]
pub fn try_take_filled<A: Pooled>(len: usize, before: impl FnOnce(&mut [MaybeUninit<A>])) -> Option<Vec<A>> {
    find_filled(len).or_else(|| {
        let mut buffer = try_new(len)?;
        before(buffer.spare_capacity_mut());
        buffer.resize(len, A::default());
        Some(buffer)
    })
}

/// Returns a buffer that was taken from the pool.
pub fn give_back<A: Pooled>(buffer: Vec<A>) {
    if !is_shared::<A>(buffer.capacity()) {
        return size_classes::give_back(buffer);
    }
    if !A::large(&mut free()).take_back(buffer.capacity()) {
        return;
    }
    let mut evicted: Vec<Vec<A>> = Vec::new();
    let mut free = free();
    free.bytes += bytes(&buffer);
    A::large(&mut free).free.push(buffer);
    while free.bytes > POOLED_BYTES {
        let buffers = A::large(&mut free);
        if buffers.free.is_empty() {
            break;
        }
        let oldest = buffers.free.remove(0);
        free.bytes -= bytes(&oldest);
        evicted.push(oldest);
    }
}

/// Returns all free large buffers to the allocator.
pub(super) fn release_shared() {
    let all = std::mem::take(&mut *free());
    drop(all);
}

static ON_REUSE: OnceLock<fn()> = OnceLock::new();

/// Has this function called by each thread that takes a free large buffer. The first call counts.
#[doc(hidden)]
pub fn on_reuse(count: fn()) {
    ON_REUSE.get_or_init(|| count);
}

fn find<A: Pooled>(len: usize) -> Option<Vec<A>> {
    if !is_shared::<A>(len) {
        return size_classes::take(len);
    }
    let mut free = free();
    let buffer = A::large(&mut free).take(len)?;
    free.bytes -= bytes(&buffer);
    drop(free);
    ON_REUSE.get().inspect(|count| count());
    Some(buffer)
}

fn find_filled<A: Pooled>(len: usize) -> Option<Vec<A>> {
    let mut buffer = find(len)?;
    // The remaining elements have never been written.
    buffer.resize(len, A::default());
    Some(buffer)
}

fn new<A>(len: usize) -> Vec<A> {
    try_new(len).unwrap_or_else(|| panic!("there is no memory for {len} numbers"))
}

fn try_new<A>(len: usize) -> Option<Vec<A>> {
    let room = if is_shared::<A>(len) { with_slack::<A>(len) } else { size_classes::capacity(len) };
    let mut new = Vec::new();
    new.try_reserve_exact(room).ok()?;
    Some(new)
}

/// The capacity of a large buffer for this many numbers.
fn with_slack<A>(len: usize) -> usize {
    len.saturating_add(SLACK_BYTES / size_of::<A>())
}

fn bytes<A>(buffer: &Vec<A>) -> usize {
    buffer.capacity() * size_of::<A>()
}

/// Whether a buffer of this many numbers belongs to the shared pool.
fn is_shared<A>(len: usize) -> bool {
    len.saturating_mul(size_of::<A>()) > SMALL_BUFFER_BYTES
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn pool_size_is_bounded_and_foreign_buffers_are_rejected() {
        let room = POOLED_BYTES / size_of::<f32>() / 4; // never written, so no page is touched
        let taken: Vec<Vec<f32>> = (0..8).map(|_| take(room)).collect();
        taken.into_iter().for_each(give_back);
        assert!(free().bytes <= POOLED_BYTES);
        give_back(Vec::<f32>::with_capacity(1_234_567)); // not from the pool
        assert!(free().f32.free.iter().all(|buffer| buffer.capacity() != 1_234_567));
        release();
    }
}
