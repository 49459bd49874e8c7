//! Small buffers: a thread keeps those that it has dropped.
//!
//! A network of small tensors makes and drops thousands of them in a step, all at once. A general
//! allocator has room for a few of each size at hand; the others cost more than to compute what is
//! in them.

use crate::parallel::memory::Pooled;
use std::cell::RefCell;

/// The small buffers that a thread has at hand.
///
/// ```
/// dl_core::buffers::release(); // lets go of those of this thread, too
/// ```
#[derive(Default)]
pub struct AtHand {
    pub(crate) f32: Small<f32>,
    pub(crate) f64: Small<f64>,
}

/// Those of one type.
///
/// ```
/// let buffer: Vec<f64> = dl_core::buffers::take(10);
/// let place = buffer.as_ptr();
/// dl_core::buffers::give_back(buffer);
/// assert_eq!(dl_core::buffers::take::<f64>(12).as_ptr(), place);
/// ```
pub struct Small<A> {
    /// By [class](Class).
    free: [Vec<Vec<A>>; CLASSES],
    bytes: usize,
}

/// More than this a thread does not keep of numbers of one type.
const KEPT_BYTES: usize = 1 << 19;
/// Numbers in a buffer of the smallest class, as a power of two.
const SMALLEST: u32 = 4;
const CLASSES: usize = 33;

/// Buffers of the same capacity. Beyond the smallest there are four for each power of two, so that
/// at most a fifth of such a buffer is wasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    number: usize,
    capacity: usize,
}

impl Class {
    /// That of a buffer with room for so many numbers.
    #[inline]
    fn of(len: usize) -> Class {
        let Some(last) = len.checked_sub(1).filter(|last| last >> SMALLEST > 0) else {
            return Class { number: 0, capacity: 1 << SMALLEST };
        };
        let power = last.ilog2();
        let quarter = last >> (power - 2);
        let number = 4 * (power - SMALLEST) as usize + quarter - 3;
        Class { number, capacity: (quarter + 1) << (power - 2) }
    }
}

impl<A> Default for Small<A> {
    fn default() -> Self {
        Small { free: std::array::from_fn(|_| Vec::new()), bytes: 0 }
    }
}

thread_local! {
    static AT_HAND: RefCell<AtHand> = RefCell::default();
}

/// A buffer with room for so many numbers, which may be something already.
#[inline]
pub(super) fn take<A: Pooled>(len: usize) -> Option<Vec<A>> {
    let class = Class::of(len);
    AT_HAND
        .try_with(|at_hand| {
            let mut at_hand = at_hand.borrow_mut();
            let small = A::small(&mut at_hand);
            let buffer = small.free.get_mut(class.number)?.pop()?;
            small.bytes -= class.capacity * size_of::<A>();
            Some(buffer)
        })
        .ok()
        .flatten()
}

/// How much room a new buffer for so many numbers is to have.
pub(super) fn capacity(len: usize) -> usize {
    Class::of(len).capacity
}

/// Keeps a buffer, if it is of one of the capacities that are asked for. When there is no more
/// room, those of which most is kept make room for others: what was made of a network once, its
/// weights, say, would keep out what is made in each step.
#[inline]
pub(super) fn give_back<A: Pooled>(buffer: Vec<A>) {
    let class = Class::of(buffer.capacity());
    if class.capacity != buffer.capacity() {
        return;
    }
    let bytes = class.capacity * size_of::<A>();
    let _ = AT_HAND.try_with(|at_hand| {
        let mut at_hand = at_hand.borrow_mut();
        let small = A::small(&mut at_hand);
        if class.number < CLASSES && small.has_room(bytes, class.number) {
            small.bytes += bytes;
            small.free[class.number].push(buffer);
        }
    });
}

impl<A> Small<A> {
    /// Whether so many bytes more may be kept in a class; the one of which most is kept makes room,
    /// if it is another.
    #[inline]
    fn has_room(&mut self, bytes: usize, class: usize) -> bool {
        while self.bytes + bytes > KEPT_BYTES {
            if self.free[class].len() * bytes > KEPT_BYTES / 2 {
                return false; // mostly it is this one
            }
            let kept = |free: &Vec<Vec<A>>| free.first().map_or(0, Vec::capacity) * free.len();
            let most = (0..CLASSES).max_by_key(|&other| kept(&self.free[other])).filter(|&most| most != class);
            let Some(most) = most else { return false };
            while self.bytes + bytes > KEPT_BYTES
                && let Some(gone) = self.free[most].pop()
            {
                self.bytes -= gone.capacity() * size_of::<A>();
            }
        }
        true
    }
}

/// Hands all that this thread has at hand back to the allocator.
pub(super) fn release() {
    let _ = AT_HAND.try_with(|at_hand| drop(at_hand.take()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_order_and_fit() {
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
    fn what_is_not_used_makes_room() {
        release();
        (0..200).map(|_| Vec::<f64>::with_capacity(1 << 9)).collect::<Vec<_>>().into_iter().for_each(give_back);
        let others: Vec<Vec<f64>> = (0..100).map(|_| Vec::with_capacity(1 << 8)).collect();
        others.into_iter().for_each(give_back);
        AT_HAND.with_borrow(|at_hand| assert!(at_hand.f64.bytes <= KEPT_BYTES));
        assert_eq!(std::iter::from_fn(|| take::<f64>(1 << 8)).count(), 100, "all of those that came later are kept");
        assert!(take::<f64>(1 << 9).is_some(), "no more went than was in the way");
        release();
    }

    #[test]
    fn a_thread_keeps_so_much_and_no_more() {
        release();
        let buffers: Vec<Vec<f64>> = (0..200).map(|_| Vec::with_capacity(1 << 9)).collect();
        let bytes = |count: usize| count << 12;
        assert!(bytes(buffers.len()) > KEPT_BYTES);
        buffers.into_iter().for_each(give_back);
        AT_HAND.with_borrow(|at_hand| assert_eq!(at_hand.f64.bytes, KEPT_BYTES));
        let taken: Vec<Vec<f64>> = std::iter::from_fn(|| take(1 << 9)).collect();
        assert_eq!(bytes(taken.len()), KEPT_BYTES);
        AT_HAND.with_borrow(|at_hand| assert_eq!(at_hand.f64.bytes, 0));
    }
}
