//! A reference-counted pointer to type-erased data: the value of a node that is not a scalar, or a
//! computation.
//!
//! Like `Arc<dyn Any>`, but data that fit are stored in a node cell (see `inline_box.rs`). Small
//! tensors fit, and every operation allocates and drops a value.

use crate::graph::inline_box::{place, place_made, remove, take_out};
use dl_parallel::sync::{AtomicUsize, Ordering, fence};
use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;

/// A handle to the data.
pub(crate) struct ErasedArc<T: ?Sized = dyn Any + Send + Sync>(NonNull<Counted<T>>);

pub(crate) struct Counted<T: ?Sized> {
    handles: AtomicUsize,
    data: T,
}

// SAFETY: `T` is `Send` and `Sync`, and the reference count is atomic.
unsafe impl<T: ?Sized + Send + Sync> Send for ErasedArc<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: ?Sized + Send + Sync> Sync for ErasedArc<T> {}

/// The process aborts above this count. It is far below overflow, because other threads may
/// increment the count before the first of them has aborted.
const TOO_MANY: usize = usize::MAX / 2;

impl ErasedArc {
    #[inline]
    pub(crate) fn new<T: Any + Send + Sync>(data: T) -> Self {
        ErasedArc(place(Counted { handles: AtomicUsize::new(1), data }))
    }

    /// The data, if they are of type `T`.
    #[inline]
    pub(crate) fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.counted().data.downcast_ref()
    }

    /// The data, if they are of type `T`: moved out if this is the only handle, else cloned.
    pub(crate) fn into_data<T: Any + Clone>(self) -> Option<T> {
        let data = self.downcast_ref::<T>()?;
        if !self.is_only() {
            return Some(data.clone());
        }
        let counted = self.0.cast::<Counted<T>>();
        std::mem::forget(self);
        // SAFETY: `new` placed the data with `place`, as type `T` (`downcast_ref` succeeded). This
        // is the only handle, and it was forgotten without a drop.
        Some(unsafe { take_out(counted) }.data)
    }

    /// The data, if they are of type `T` and this is the only handle.
    pub(crate) fn downcast_mut<T: Any>(&mut self) -> Option<&mut T> {
        if !self.is_only() {
            return None;
        }
        // SAFETY: this is the only handle, and it is borrowed exclusively, so it cannot be cloned.
        unsafe { self.0.as_mut() }.data.downcast_mut()
    }
}

impl<T> ErasedArc<T> {
    /// Constructs the data in the memory of a node. The pointer may be unsized before
    /// [`ErasedArc::from_counted`] makes a handle of it.
    #[inline]
    pub(crate) fn counted_of(data: T) -> NonNull<Counted<T>> {
        place_made(|| Counted { handles: AtomicUsize::new(1), data })
    }
}

impl<T: ?Sized> ErasedArc<T> {
    /// The first handle of data from [`ErasedArc::counted_of`].
    #[inline]
    pub(crate) fn from_counted(counted: NonNull<Counted<T>>) -> Self {
        ErasedArc(counted)
    }
}

impl<T: ?Sized> ErasedArc<T> {
    #[inline]
    fn counted(&self) -> &Counted<T> {
        // SAFETY: the data are dropped with the last handle, and `self` is a handle.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn is_only(&self) -> bool {
        // Acquire: synchronizes with the Release decrements of the handles dropped before.
        self.counted().handles.load(Ordering::Acquire) == 1
    }
}

impl<T: ?Sized> Deref for ErasedArc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.counted().data
    }
}

impl<T: ?Sized> Clone for ErasedArc<T> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: a new handle is made from an existing one, so no data have to be published.
        if self.counted().handles.fetch_add(1, Ordering::Relaxed) > TOO_MANY {
            std::process::abort(); // overflow by forgotten handles would be unsound
        }
        ErasedArc(self.0)
    }
}

impl<T: ?Sized> Drop for ErasedArc<T> {
    #[inline]
    fn drop(&mut self) {
        // The only handle cannot be cloned by another thread, so the decrement can be skipped.
        if !self.is_only() {
            // Release: uses through this handle happen before the drop of the data.
            if self.counted().handles.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            // Synchronizes with the Release decrements of all other handles.
            fence(Ordering::Acquire);
        }
        self.drop_data();
    }
}

impl<T: ?Sized> ErasedArc<T> {
    /// Drops the data of the last handle. Not inlined: most values are numbers.
    #[inline(never)]
    fn drop_data(&mut self) {
        // SAFETY: `place` or `place_made` stored the data, and no other handle is left.
        unsafe { remove(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    #[test]
    fn data_of_any_size_are_dropped_with_last_handle() {
        fn check<const N: usize>() {
            let alive = Arc::new(());
            let mut first = ErasedArc::new(([7_u64; N], alive.clone()));
            let second = first.clone();
            assert!(first.downcast_mut::<([u64; N], Arc<()>)>().is_none(), "there is another handle");
            assert!(first.downcast_ref::<u64>().is_none(), "the data are of another type");
            drop(second);
            let (numbers, _) = first.downcast_mut::<([u64; N], Arc<()>)>().expect("the only handle");
            assert_eq!(*numbers, [7; N]);
            assert_eq!(Arc::strong_count(&alive), 2);
            let other = first.clone();
            let cloned = other.into_data::<([u64; N], Arc<()>)>().expect("it is of this type");
            assert_eq!((cloned.0, Arc::strong_count(&alive)), ([7; N], 3));
            drop(cloned);
            let taken = first.into_data::<([u64; N], Arc<()>)>().expect("it is of this type");
            assert_eq!((taken.0, Arc::strong_count(&alive)), ([7; N], 2));
            drop(ErasedArc::new(taken));
            assert_eq!(Arc::strong_count(&alive), 1);
        }
        check::<0>();
        check::<6>();
        check::<7>();
        check::<100>();
    }

    #[test]
    fn handles_dropped_by_many_threads_free_data_once() {
        let alive = Arc::new(());
        let data = ErasedArc::new(alive.clone());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut mine = data.clone();
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        mine = mine.clone();
                        assert!(mine.downcast_ref::<Arc<()>>().is_some());
                    }
                });
            }
            drop(data);
        });
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn panicking_destructor_unwinds_from_drop() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("in a destructor");
            }
        }
        let data = ErasedArc::new(Panics);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(data))).is_err());
    }
}
