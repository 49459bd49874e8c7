//! The memory of values that are gone, for the values that come.
//!
//! A tensor of some megabytes costs more to get from the system, page by page, than to compute;
//! thousands of tensors of some bytes cost more to get from the allocator. So a type with buffers
//! leaves them here when it goes, and a kernel takes one of the right size from here, in the same
//! pass or in a later one. Large ones are shared by all threads; of small ones, each thread keeps
//! its own.
//!
//! ```
//! use dl_core::buffers;
//! let mut buffer: Vec<f32> = buffers::take(100_000);
//! buffer.resize(100_000, 0.0);
//! let place = buffer.as_ptr();
//! buffers::give_back(buffer);
//! assert_eq!(buffers::take::<f32>(100_000).as_ptr(), place);
//! buffers::release();
//! ```

#[doc(hidden)]
pub use crate::parallel::memory::size_classes::{AtHand, Small};

use crate::exec;
use crate::graph::node_ref;
use crate::parallel::memory::Pooled;
use crate::parallel::memory::size_classes;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The free buffers.
///
/// ```
/// dl_core::buffers::release(); // lets go of all that is free
/// ```
#[doc(hidden)]
#[derive(Default)]
pub struct Free {
    pub(crate) f32: Buffers<f32>,
    pub(crate) f64: Buffers<f64>,
    bytes: usize,
}

/// The free buffers of one type.
///
/// ```
/// let buffer: Vec<f64> = dl_core::buffers::take(10_000);
/// assert!(buffer.capacity() >= 10_000);
/// dl_core::buffers::give_back(buffer);
/// ```
#[doc(hidden)]
#[derive(Default)]
pub struct Buffers<A> {
    /// Those that came last at the end.
    free: Vec<Vec<A>>,
    /// How many of each capacity were taken and have not come back. Others, which somebody got from
    /// the allocator, would pile up here.
    taken: BTreeMap<usize, usize>,
}

impl<A> Buffers<A> {
    const fn new() -> Self {
        Buffers { free: Vec::new(), taken: BTreeMap::new() }
    }

    fn take(&mut self, len: usize) -> Option<Vec<A>> {
        let place = self.free.iter().rposition(|buffer| (len..=len + len / 4).contains(&buffer.capacity()));
        let buffer = place.map(|place| self.free.remove(place));
        if self.taken.len() >= SIZES_KNOWN {
            self.taken.clear();
        }
        *self.taken.entry(buffer.as_ref().map_or(with_slack::<A>(len), Vec::capacity)).or_default() += 1;
        buffer
    }

    /// Whether one of this capacity is expected back.
    fn expects(&mut self, capacity: usize) -> bool {
        let Some(taken) = self.taken.get_mut(&capacity) else { return false };
        *taken -= 1;
        if *taken == 0 {
            self.taken.remove(&capacity);
        }
        true
    }
}

/// No more than this, a thread keeps for itself.
const SHARED_BYTES: usize = 1 << 14;
/// More than this is not kept.
const KEPT_BYTES: usize = 1 << 28;

/// A large buffer is longer by a line of the cache than it was asked for: who wants to begin where
/// one does finds room in it, too.
const SLACK_BYTES: usize = 64;

/// Of so many sizes it is known how many were taken.
const SIZES_KNOWN: usize = 1 << 10;

static FREE: Mutex<Free> = Mutex::new(Free { f32: Buffers::new(), f64: Buffers::new(), bytes: 0 });

fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty vector with room for `len` numbers: a free buffer of about that size, else a new one.
///
/// # Panics
/// When there is no memory for them. In the kernel of an operation that makes an error of the pass.
pub fn take<A: Pooled>(len: usize) -> Vec<A> {
    match find(len) {
        Some(mut buffer) => {
            buffer.clear();
            buffer
        }
        None => new(len),
    }
}

/// `len` numbers, which may be anything: whoever takes them is going to write all of them.
///
/// ```
/// assert_eq!(dl_core::buffers::take_filled::<f32>(100_000).len(), 100_000);
/// ```
///
/// # Panics
/// When there is no memory for them.
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

/// The same as [`take_filled`], or nothing if there is no memory for them. Where it is new,
/// `before` is called with all of it, which may be more than was asked for, before anybody writes
/// to it.
///
/// ```
/// assert_eq!(dl_core::buffers::try_take_filled::<f32>(100_000, |_| {}).expect("memory").len(), 100_000);
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

/// Leaves a buffer that was taken from here for later use.
pub fn give_back<A: Pooled>(buffer: Vec<A>) {
    if !is_shared::<A>(buffer.capacity()) {
        return size_classes::give_back(buffer);
    }
    if !A::large(&mut free()).expects(buffer.capacity()) {
        return;
    }
    let mut gone: Vec<Vec<A>> = Vec::new();
    let mut free = free();
    free.bytes += bytes(&buffer);
    A::large(&mut free).free.push(buffer);
    while free.bytes > KEPT_BYTES {
        let buffers = A::large(&mut free);
        if buffers.free.is_empty() {
            break;
        }
        let oldest = buffers.free.remove(0);
        free.bytes -= bytes(&oldest);
        gone.push(oldest);
    }
}

/// Hands all free buffers back to the allocator, and what is kept of large graphs and passes, but
/// for what other threads keep for themselves: usually a few megabytes at most for each of them,
/// and more where one has dropped large graphs in no order, as the memory that it keeps for its
/// next nodes then lies scattered.
pub fn release() {
    size_classes::release();
    node_ref::release();
    exec::release();
    let all = std::mem::take(&mut *free());
    drop(all);
}

fn find<A: Pooled>(len: usize) -> Option<Vec<A>> {
    if !is_shared::<A>(len) {
        return size_classes::take(len);
    }
    let mut free = free();
    let buffer = A::large(&mut free).take(len)?;
    free.bytes -= bytes(&buffer);
    drop(free);
    exec::note_reuse();
    Some(buffer)
}

fn find_filled<A: Pooled>(len: usize) -> Option<Vec<A>> {
    let mut buffer = find(len)?;
    // the rest has never been written
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

/// The capacity of a large buffer for so many numbers.
fn with_slack<A>(len: usize) -> usize {
    len.saturating_add(SLACK_BYTES / size_of::<A>())
}

fn bytes<A>(buffer: &Vec<A>) -> usize {
    buffer.capacity() * size_of::<A>()
}

/// Whether a buffer of so many numbers is one of those that threads share.
fn is_shared<A>(len: usize) -> bool {
    len.saturating_mul(size_of::<A>()) > SHARED_BYTES
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_is_said() {
        let room = KEPT_BYTES / size_of::<f32>() / 4; // never written, so it needs no memory
        let taken: Vec<Vec<f32>> = (0..8).map(|_| take(room)).collect();
        taken.into_iter().for_each(give_back);
        assert!(free().bytes <= KEPT_BYTES);
        give_back(Vec::<f32>::with_capacity(1_234_567)); // not from here
        assert!(free().f32.free.iter().all(|buffer| buffer.capacity() != 1_234_567));
        release();
    }
}
