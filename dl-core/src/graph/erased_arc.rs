//! Data of any type, counted: what a value that is no scalar consists of, and what a computation
//! does.
//!
//! As an `Arc<dyn Any>`, but in memory of nodes if it fits: a small tensor does, and a value is
//! made and dropped for every operation.

use crate::graph::inline_box::{place, place_made, remove, take_out};
use crate::parallel::sync::{AtomicUsize, Ordering, fence};
use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;

/// One of the handles to some data.
pub(crate) struct Shared<T: ?Sized = dyn Any + Send + Sync>(NonNull<Counted<T>>);

pub(crate) struct Counted<T: ?Sized> {
    handles: AtomicUsize,
    data: T,
}

// SAFETY: the data are `Send` and `Sync`, and the count is atomic
unsafe impl<T: ?Sized + Send + Sync> Send for Shared<T> {}
// SAFETY: as above
unsafe impl<T: ?Sized + Send + Sync> Sync for Shared<T> {}

/// Far from the end, so that many threads may pass it at once before one of them notices.
const TOO_MANY: usize = usize::MAX / 2;

impl Shared {
    #[inline]
    pub(crate) fn new<T: Any + Send + Sync>(data: T) -> Self {
        Shared(place(Counted { handles: AtomicUsize::new(1), data }))
    }

    /// The data, if they are of this type.
    #[inline]
    pub(crate) fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.counted().data.downcast_ref()
    }

    /// The data, if they are of this type; a clone, if somebody else has a handle.
    pub(crate) fn into_data<T: Any + Clone>(self) -> Option<T> {
        let data = self.downcast_ref::<T>()?;
        if !self.is_only() {
            return Some(data.clone());
        }
        let counted = self.0.cast::<Counted<T>>();
        std::mem::forget(self);
        // SAFETY: `new` has placed it, as data of this type, and this was the only handle
        Some(unsafe { take_out(counted) }.data)
    }

    /// The data, if they are of this type and this is the only handle.
    pub(crate) fn downcast_mut<T: Any>(&mut self) -> Option<&mut T> {
        if !self.is_only() {
            return None;
        }
        // SAFETY: nobody else has a handle, and none can be made meanwhile
        unsafe { self.0.as_mut() }.data.downcast_mut()
    }
}

impl<T> Shared<T> {
    /// Constructs the data in the memory of a node. The pointer may be unsized before
    /// [`Shared::from_counted`] makes a handle of it.
    #[inline]
    pub(crate) fn counted_of(data: T) -> NonNull<Counted<T>> {
        place_made(|| Counted { handles: AtomicUsize::new(1), data })
    }
}

impl<T: ?Sized> Shared<T> {
    /// The first handle of data from [`Shared::counted_of`].
    #[inline]
    pub(crate) fn from_counted(counted: NonNull<Counted<T>>) -> Self {
        Shared(counted)
    }
}

impl<T: ?Sized> Shared<T> {
    #[inline]
    fn counted(&self) -> &Counted<T> {
        // SAFETY: a handle keeps the data alive
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn is_only(&self) -> bool {
        self.counted().handles.load(Ordering::Acquire) == 1
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.counted().data
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        if self.counted().handles.fetch_add(1, Ordering::Relaxed) > TOO_MANY {
            std::process::abort(); // handles were forgotten without end: counting on would be unsound
        }
        Shared(self.0)
    }
}

impl<T: ?Sized> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        // the only handle cannot be cloned by anybody else: no need to write
        if !self.is_only() {
            if self.counted().handles.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        self.drop_data();
    }
}

impl<T: ?Sized> Shared<T> {
    /// This was the last handle. Not inlined: most values are numbers.
    #[inline(never)]
    fn drop_data(&mut self) {
        // SAFETY: `place` has put it there, and nobody else has a handle
        unsafe { remove(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    #[test]
    fn data_go_with_the_last_handle_whatever_their_size() {
        fn check<const N: usize>() {
            let alive = Arc::new(());
            let mut first = Shared::new(([7_u64; N], alive.clone()));
            let second = first.clone();
            assert!(first.downcast_mut::<([u64; N], Arc<()>)>().is_none(), "somebody else has it");
            assert!(first.downcast_ref::<u64>().is_none(), "it is something else");
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
            drop(Shared::new(taken));
            assert_eq!(Arc::strong_count(&alive), 1);
        }
        check::<0>();
        check::<6>();
        check::<7>();
        check::<100>();
    }

    #[test]
    fn threads_may_share_it_and_drop_it_in_any_order() {
        let alive = Arc::new(());
        let data = Shared::new(alive.clone());
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
    fn a_destructor_may_panic() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("on the way out");
            }
        }
        let data = Shared::new(Panics);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(data))).is_err());
    }
}
