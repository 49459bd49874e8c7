//! The primitives of the model checker, and supplements to them.

use crate::sync::checker;
use std::cell::Cell;
use std::sync::atomic::AtomicBool as RealBool;
use std::time::Duration;

pub use checker::hint::spin_loop;
pub use checker::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use checker::sync::{Mutex, MutexGuard};
pub use checker::thread::{Thread, current, park, yield_now};
pub use std::sync::TryLockError;

/// `loom` models run no pass, so they need no pool.
#[cfg(loom)]
pub use no_pool::*;

#[cfg(loom)]
mod no_pool {
    pub fn current_num_threads() -> usize {
        1
    }

    pub fn current_thread_index() -> Option<usize> {
        None
    }

    pub fn spawn(work: impl FnOnce() + Send + 'static) {
        loom::thread::spawn(work);
    }
}

/// The only jobs are those of the model, which the checker schedules.
pub fn give_way() -> bool {
    false
}

/// Limited, to keep executions short.
pub const fn spins(often: usize) -> usize {
    if often < 2 { often } else { 2 }
}

/// Limits a wait. As there is no time under a checker, it lasts for two polls.
pub struct Deadline(Cell<usize>);

impl Deadline {
    pub fn new() -> Self {
        Deadline(Cell::new(2))
    }

    pub fn lasts(&self, _longest: Duration) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! checked_globals {
    ($($(#[$attr:meta])* static $name:ident: $t:ty = $init:expr;)*) => {
        $($crate::sync::checker_globals! { $(#[$attr])* static ref $name: $t = $init; })*
    };
}
pub use crate::checked_globals as globals;

#[cfg(loom)]
pub use loom::lazy_static as checker_globals;
#[cfg(shuttle)]
pub use shuttle::lazy_static as checker_globals;

#[doc(hidden)]
#[macro_export]
macro_rules! checked_array_of {
    ($new:expr; $len:expr) => {
        std::array::from_fn::<_, { $len }, _>(|_| $new)
    };
}
pub use crate::checked_array_of as array_of;

/// A thread-local value with the methods of the standard library's that are used here.
pub struct LocalKey<T: 'static>(pub checker::thread::LocalKey<T>);

pub use checker::thread::LocalKey as CheckerKey;

impl<T> LocalKey<T> {
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.0.with(f)
    }

    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, Gone> {
        self.0.try_with(f).map_err(|_| Gone)
    }
}

/// The thread is exiting and its values are destroyed.
#[derive(Debug)]
pub struct Gone;

impl<T> LocalKey<Cell<T>> {
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! checked_thread_local {
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block $(;)?) => {
        $(#[$attr])*
        $vis static $name: $crate::sync::LocalKey<$t> =
            $crate::sync::LocalKey($crate::sync::CheckerKey { init: || $init, _p: std::marker::PhantomData });
    };
}
pub use crate::checked_thread_local as thread_local;

std::thread_local! {
    // A checker runs all threads of an execution on one OS thread.
    static THERE: Cell<isize> = const { Cell::new(0) };
}

/// The number of live objects that are freed manually.
pub fn guarded_things() -> isize {
    THERE.get()
}

/// A field of objects that are freed manually. Every use and the end of the object are recorded
/// here. `loom` checks that the end happens after every use, in the sense of the memory model; the
/// flag detects uses after the end. Under a checker the memory itself is not freed, so that the
/// field stays readable.
pub struct Guarded {
    gone: RealBool,
    #[cfg(loom)]
    uses: loom::cell::UnsafeCell<()>,
}

// SAFETY: the cell contains nothing.
#[cfg(loom)]
#[allow(unsafe_code, reason = "the cell is there to be watched, and is empty")]
unsafe impl Sync for Guarded {}

impl Guarded {
    pub fn new() -> Self {
        THERE.set(THERE.get() + 1);
        #[cfg(loom)]
        let uses = loom::cell::UnsafeCell::new(());
        // Every use must happen after the creation.
        #[cfg(loom)]
        uses.with_mut(|_| ());
        Guarded {
            gone: RealBool::new(false),
            #[cfg(loom)]
            uses,
        }
    }

    #[track_caller]
    pub fn used(&self) {
        assert!(!self.gone.load(Ordering::Relaxed), "it was used after it was freed");
        #[cfg(loom)]
        self.uses.with(|_| ());
    }

    #[track_caller]
    pub fn gone(&self) {
        assert!(!self.gone.swap(true, Ordering::Relaxed), "it was freed twice");
        #[cfg(loom)]
        self.uses.with_mut(|_| ());
        THERE.set(THERE.get() - 1);
    }
}
