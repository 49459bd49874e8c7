//! A box for an object that belongs to one node: an operation with its operands, the body or the
//! running future of a dynamic node, an accumulated cotangent.
//!
//! An object that fits into a node cell (64 bytes) is stored in one, which comes from the
//! thread-local free list; a larger one is stored in an ordinary `Box`.

use crate::graph::node::DynamicBody;
use crate::graph::node_ref::{give_back_cell, take_cell};
use crate::graph::op::AnyPrimitive;
use dl_parallel::memory::slab::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// Owns a `T`.
pub(crate) struct InlineBox<T: ?Sized>(NonNull<T>, PhantomData<T>);

// SAFETY: the box owns its value, as `Box<T>` does.
unsafe impl<T: ?Sized + Send> Send for InlineBox<T> {}
// SAFETY: a shared box gives shared access only, as `Box<T>` does.
unsafe impl<T: ?Sized + Sync> Sync for InlineBox<T> {}

impl InlineBox<dyn AnyPrimitive> {
    #[inline]
    pub(crate) fn operation<P: AnyPrimitive + 'static>(op: P) -> Self {
        InlineBox(place(op), PhantomData)
    }
}

impl InlineBox<dyn DynamicBody> {
    #[inline]
    pub(crate) fn body<R: DynamicBody + 'static>(recipe: R) -> Self {
        InlineBox(place(recipe), PhantomData)
    }
}

impl<T> InlineBox<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        InlineBox(place(value), PhantomData)
    }

    #[inline]
    pub(crate) fn into_inner(self) -> T {
        let place = self.0;
        std::mem::forget(self);
        // SAFETY: the value was stored by `place`; the box that owned it was forgotten without a
        // drop.
        unsafe { take_out(place) }
    }
}

/// A future at a stable address, until it is dropped.
pub(crate) type InlineFuture<T> = InlineBox<dyn Future<Output = T> + Send>;

impl<T> InlineFuture<T> {
    #[inline]
    pub(crate) fn future(future: impl Future<Output = T> + Send + 'static) -> Self {
        InlineBox(place(future), PhantomData)
    }
}

// The value is not moved with the box.
impl<T: ?Sized> Unpin for InlineBox<T> {}

impl<T> Future for InlineFuture<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the future is pinned: it was stored at its address, is dropped there, and cannot
        // be moved out in between. The box gives no other `&mut` access to a value that is not
        // `Unpin`, and `into_inner` needs a sized type, which `dyn Future` is not.
        unsafe { Pin::new_unchecked(self.0.as_mut()) }.poll(cx)
    }
}

/// Whether a value of this size and alignment is stored in a cell.
#[inline]
const fn fits(size: usize, align: usize) -> bool {
    0 < size && size <= size_of::<Cell>() && align <= align_of::<Cell>()
}

/// Stores a value at an address that is stable until it is [removed](remove).
#[inline]
pub(super) fn place<T>(value: T) -> NonNull<T> {
    place_made(|| value)
}

/// As `place`, for a value that is constructed in its place (see `tables::push_made`). `make` must
/// not unwind: the cell would leak.
#[inline(always)]
pub(super) fn place_made<T>(make: impl FnOnce() -> T) -> NonNull<T> {
    if !fits(size_of::<T>(), align_of::<T>()) {
        return NonNull::from(Box::leak(Box::new(make())));
    }
    let place = take_cell().cast::<T>();
    // SAFETY: the cell came from `take_cell` and is unused, and `fits` has checked size and
    // alignment.
    unsafe { place.write(make()) };
    place
}

/// Drops a value and frees its memory.
///
/// # Safety
/// The value must have been stored by `place` or `place_made`, and must not be used afterwards.
#[inline]
pub(super) unsafe fn remove<T: ?Sized>(value: NonNull<T>) {
    struct Vacate(NonNull<Cell>);

    impl Drop for Vacate {
        fn drop(&mut self) {
            // SAFETY: the cell came from `take_cell`, and the value in it has been dropped.
            unsafe { give_back_cell(self.0) };
        }
    }

    // SAFETY: the caller guarantees that the value is alive.
    let known = unsafe { value.as_ref() };
    if fits(size_of_val(known), align_of_val(known)) {
        // Frees the cell even if the destructor panics.
        let _vacate = Vacate(value.cast());
        // SAFETY: the caller guarantees that the value is alive and not used afterwards.
        unsafe { value.drop_in_place() };
    } else {
        // SAFETY: a value that does not fit was allocated by `Box` in `place_made`, and is not used
        // afterwards.
        drop(unsafe { Box::from_raw(value.as_ptr()) });
    }
}

/// Moves a value out and frees its memory.
///
/// # Safety
/// The value must have been stored by `place` or `place_made`, and must not be used afterwards.
pub(super) unsafe fn take_out<T>(place: NonNull<T>) -> T {
    // SAFETY: guaranteed by the caller. After the read the memory counts as uninitialized, so
    // `remove` drops nothing; `MaybeUninit<T>` has the layout of `T`.
    unsafe {
        let value = place.read();
        remove(place.cast::<MaybeUninit<T>>());
        value
    }
}

impl<T: ?Sized> Deref for InlineBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is initialized, and dropped only with this box.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Unpin> DerefMut for InlineBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is initialized, dropped only with this box, and the box is borrowed
        // exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl<T: ?Sized> Drop for InlineBox<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value was stored by `place` or `place_made`, and the box is not used
        // afterwards.
        unsafe { remove(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::graph::node::Outcome;
    use crate::graph::seed::Position;
    use std::sync::Arc;

    struct Body<const N: usize> {
        numbers: [u64; N],
        _alive: Arc<()>,
    }

    impl<const N: usize> DynamicBody for Body<N> {
        fn run(&self) -> InlineFuture<Result<Outcome>> {
            unreachable!("the test does not run it")
        }

        fn name(&self) -> &'static str {
            if self.numbers.iter().enumerate().all(|(i, &n)| i as u64 == n) { "whole" } else { "broken" }
        }

        fn position(&self) -> Position {
            Position::here()
        }
    }

    #[test]
    fn boxed_value_of_any_size_is_dropped_once() {
        fn check<const N: usize>() {
            let alive = Arc::new(());
            let numbers = std::array::from_fn(|i| i as u64);
            let body = || InlineBox::body(Body::<N> { numbers, _alive: alive.clone() });
            let (first, second) = (body(), body());
            assert_eq!((first.name(), second.name(), Arc::strong_count(&alive)), ("whole", "whole", 3));
            drop(first);
            assert_eq!((second.name(), Arc::strong_count(&alive)), ("whole", 2));
            drop(second);
            assert_eq!(Arc::strong_count(&alive), 1);
        }
        check::<0>();
        check::<7>();
        check::<8>();
        check::<100>();
    }

    /// A future that is pending once, and then returns whether its address is unchanged.
    struct Stays<const N: usize> {
        polled_at: Option<usize>,
        _numbers: [u64; N],
        _alive: Arc<()>,
    }

    impl<const N: usize> Future for Stays<N> {
        type Output = bool;

        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<bool> {
            let here = std::ptr::from_ref(&*self).addr();
            match self.polled_at.replace(here) {
                None => Poll::Pending,
                Some(before) => Poll::Ready(before == here),
            }
        }
    }

    #[test]
    fn boxed_future_is_not_moved_and_dropped_once() {
        fn check<const N: usize>() {
            let alive = Arc::new(());
            let stays = || Stays { polled_at: None, _numbers: [7; N], _alive: alive.clone() };
            let (mut first, second) = (InlineBox::future(stays()), InlineBox::future(stays()));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert_eq!(Pin::new(&mut first).poll(&mut cx), Poll::Pending);
            drop(second);
            let mut moved = Some(first);
            let again = Pin::new(moved.as_mut().expect("the future was moved here")).poll(&mut cx);
            assert_eq!((again, Arc::strong_count(&alive)), (Poll::Ready(true), 2));
            drop(moved);
            assert_eq!(Arc::strong_count(&alive), 1);
        }
        check::<0>();
        check::<5>();
        check::<6>();
        check::<100>();
    }
}
