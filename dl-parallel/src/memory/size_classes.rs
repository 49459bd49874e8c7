//! Per-thread caches of small buffers, by size class.
//!
//! A network of small tensors allocates and drops thousands of them in each step, all at once.
//! General allocators cache a few per size and thread; the others cost more than the computation of
//! their contents.

use crate::memory::Pooled;
use crate::thresholds::CACHED_BYTES;
use std::cell::RefCell;

/// The cached small buffers of a thread.
///
/// ```
/// dl_parallel::buffers::release(); // frees those of this thread, too
/// ```
#[derive(Default)]
pub struct AtHand {
    pub(crate) f32: Small<f32>,
    pub(crate) f64: Small<f64>,
    pub(crate) usize: Small<usize>,
    pub(crate) bool: Small<bool>,
    pub(crate) u8: Small<u8>,
}

/// The cached small buffers of one element type.
///
/// ```
/// let buffer: Vec<f64> = dl_parallel::buffers::take(10);
/// let place = buffer.as_ptr();
/// dl_parallel::buffers::give_back(buffer);
/// assert_eq!(dl_parallel::buffers::take::<f64>(12).as_ptr(), place);
/// ```
pub struct Small<A> {
    /// By [size class](Class).
    free: [Vec<Vec<A>>; CLASSES],
    bytes: usize,
}

/// The log2 of the number of elements in the smallest class.
const SMALLEST_LOG2: u32 = 4;
const CLASSES: usize = 33;

/// A size class: buffers of the same capacity. Above the smallest class there are four classes per
/// power of two, so that at most a fifth of a buffer is wasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    number: usize,
    capacity: usize,
}

impl Class {
    /// The class of buffers with room for this many numbers.
    #[inline]
    fn of(len: usize) -> Class {
        let Some(last) = len.checked_sub(1).filter(|last| last >> SMALLEST_LOG2 > 0) else {
            return Class { number: 0, capacity: 1 << SMALLEST_LOG2 };
        };
        let power = last.ilog2();
        let quarter = last >> (power - 2);
        let number = 4 * (power - SMALLEST_LOG2) as usize + quarter - 3;
        Class { number, capacity: (quarter + 1) << (power - 2) }
    }
}

impl<A> Default for Small<A> {
    fn default() -> Self {
        Small { free: std::array::from_fn(|_| Vec::new()), bytes: 0 }
    }
}

thread_local! {
    static CACHE: RefCell<AtHand> = RefCell::default();
}

/// A cached buffer with room for this many numbers. Its length may be nonzero.
#[inline]
pub(super) fn take<A: Pooled>(len: usize) -> Option<Vec<A>> {
    let class = Class::of(len);
    CACHE
        .try_with(|cache| {
            let mut cache = cache.borrow_mut();
            let small = A::small(&mut cache);
            let buffer = small.free.get_mut(class.number)?.pop()?;
            small.bytes -= class.capacity * size_of::<A>();
            Some(buffer)
        })
        .ok()
        .flatten()
}

/// The capacity of a new buffer for this many numbers.
pub(super) fn capacity(len: usize) -> usize {
    Class::of(len).capacity
}

/// Caches a buffer if its capacity is that of a size class. When the cache is full, buffers of the
/// class with the most memory are freed, so that buffers from a single use (the initialization of a
/// network, for instance) do not displace those of each step.
#[inline]
pub(super) fn give_back<A: Pooled>(buffer: Vec<A>) {
    let class = Class::of(buffer.capacity());
    if class.capacity != buffer.capacity() {
        return;
    }
    let bytes = class.capacity * size_of::<A>();
    let _ = CACHE.try_with(|cache| {
        let mut cache = cache.borrow_mut();
        let small = A::small(&mut cache);
        if class.number < CLASSES && small.make_room(bytes, class.number) {
            small.bytes += bytes;
            small.free[class.number].push(buffer);
        }
    });
}

impl<A> Small<A> {
    /// Whether this many more bytes fit into the cache. If not, frees buffers of the class with the
    /// most memory, unless it is this class.
    #[inline]
    fn make_room(&mut self, bytes: usize, class: usize) -> bool {
        while self.bytes + bytes > CACHED_BYTES {
            if self.free[class].len() * bytes > CACHED_BYTES / 2 {
                return false; // mostly it is this one
            }
            let cached_elements = |free: &Vec<Vec<A>>| free.first().map_or(0, Vec::capacity) * free.len();
            let most =
                (0..CLASSES).max_by_key(|&other| cached_elements(&self.free[other])).filter(|&most| most != class);
            let Some(most) = most else { return false };
            while self.bytes + bytes > CACHED_BYTES
                && let Some(evicted) = self.free[most].pop()
            {
                self.bytes -= evicted.capacity() * size_of::<A>();
            }
        }
        true
    }
}

/// Frees all small buffers cached by this thread.
pub(super) fn release() {
    let _ = CACHE.try_with(|cache| drop(cache.take()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_ordered_and_fit() {
        let mut before = Class::of(0);
        assert_eq!(before, Class { number: 0, capacity: 16 });
        for len in 1..=5_000 {
            let class = Class::of(len);
            assert!(class.capacity >= len && (len <= 16 || 4 * class.capacity <= 5 * len + 4), "{len}: {class:?}");
            assert_eq!(Class::of(class.capacity), class, "a buffer of {len} comes back to where it was taken from");
            match class.number - before.number {
                0 => assert_eq!(class, before),
                step => assert!(step == 1 && class.capacity > before.capacity),
            }
            before = class;
        }
        assert!(Class::of(4096).number < CLASSES);
    }

    #[test]
    fn unused_class_is_evicted_for_new_buffers() {
        release();
        (0..200).map(|_| Vec::<f64>::with_capacity(1 << 9)).collect::<Vec<_>>().into_iter().for_each(give_back);
        let others: Vec<Vec<f64>> = (0..100).map(|_| Vec::with_capacity(1 << 8)).collect();
        others.into_iter().for_each(give_back);
        CACHE.with_borrow(|cache| assert!(cache.f64.bytes <= CACHED_BYTES));
        assert_eq!(std::iter::from_fn(|| take::<f64>(1 << 8)).count(), 100, "all of those that came later are kept");
        assert!(take::<f64>(1 << 9).is_some(), "no more went than was in the way");
        release();
    }

    #[test]
    fn cache_size_is_bounded() {
        release();
        let buffers: Vec<Vec<f64>> = (0..200).map(|_| Vec::with_capacity(1 << 9)).collect();
        let bytes = |count: usize| count << 12;
        assert!(bytes(buffers.len()) > CACHED_BYTES);
        buffers.into_iter().for_each(give_back);
        CACHE.with_borrow(|cache| assert_eq!(cache.f64.bytes, CACHED_BYTES));
        let taken: Vec<Vec<f64>> = std::iter::from_fn(|| take(1 << 9)).collect();
        assert_eq!(bytes(taken.len()), CACHED_BYTES);
        CACHE.with_borrow(|cache| assert_eq!(cache.f64.bytes, 0));
    }
}
