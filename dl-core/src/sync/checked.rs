//! The primitives of the model checker, and what else it needs.

use super::checker;
use std::cell::Cell;
use std::sync::atomic::AtomicBool as RealBool;
use std::time::Duration;

pub(crate) use checker::hint::spin_loop;
pub(crate) use checker::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use checker::sync::{Mutex, MutexGuard};
pub(crate) use checker::thread::{Thread, current, park, yield_now};
pub(crate) use std::sync::TryLockError;

/// `loom` runs no pass, so it needs no pool.
#[cfg(loom)]
pub(crate) use no_pool::*;

#[cfg(loom)]
mod no_pool {
    pub(crate) fn current_num_threads() -> usize {
        1
    }

    pub(crate) fn current_thread_index() -> Option<usize> {
        None
    }

    pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
        loom::thread::spawn(work);
    }
}

/// There are no jobs but those of the model, which take their turns anyway.
pub(crate) fn give_way() -> bool {
    false
}

/// So that an execution stays short.
pub(crate) const fn spins(often: usize) -> usize {
    if often < 2 { often } else { 2 }
}

/// How long a thread has been waiting: there is no time, so it may ask twice.
pub(crate) struct Patience(Cell<usize>);

impl Patience {
    pub(crate) fn new() -> Self {
        Patience(Cell::new(2))
    }

    pub(crate) fn lasts(&self, _longest: Duration) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

macro_rules! globals {
    ($($(#[$attr:meta])* static $name:ident: $t:ty = $init:expr;)*) => {
        $($crate::sync::checker_globals! { $(#[$attr])* static ref $name: $t = $init; })*
    };
}
pub(crate) use globals;

#[cfg(loom)]
pub(crate) use loom::lazy_static as checker_globals;
#[cfg(shuttle)]
pub(crate) use shuttle::lazy_static as checker_globals;

macro_rules! array_of {
    ($new:expr; $len:expr) => {
        std::array::from_fn::<_, { $len }, _>(|_| $new)
    };
}
pub(crate) use array_of;

/// A thread-local value, with those methods of the standard library's that are used here.
pub(crate) struct LocalKey<T: 'static>(pub(crate) checker::thread::LocalKey<T>);

pub(crate) use checker::thread::LocalKey as CheckerKey;

impl<T> LocalKey<T> {
    pub(crate) fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.0.with(f)
    }

    pub(crate) fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, Gone> {
        self.0.try_with(f).map_err(|_| Gone)
    }
}

/// The thread is ending, and its values are gone.
#[derive(Debug)]
pub(crate) struct Gone;

impl<T> LocalKey<Cell<T>> {
    pub(crate) fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    pub(crate) fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    pub(crate) fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

macro_rules! locals {
    ($(#[$attr:meta])* static $name:ident: $t:ty = const $init:block $(;)?) => {
        $(#[$attr])*
        static $name: $crate::sync::LocalKey<$t> =
            $crate::sync::LocalKey($crate::sync::CheckerKey { init: || $init, _p: std::marker::PhantomData });
    };
}
pub(crate) use locals as thread_local;

std::thread_local! {
    // a checker runs all threads of an execution on one
    static THERE: Cell<isize> = const { Cell::new(0) };
}

/// How many things there are that are freed by hand.
pub(crate) fn guarded_things() -> isize {
    THERE.get()
}

/// Part of what is freed by hand. Every use of it looks here; so does the end. `loom` wants to see
/// that the end comes after every use, in the sense of the memory model; the flag sees uses that
/// come after it. Memory is not given back under a checker, so that it can be looked at.
pub(crate) struct Guarded {
    gone: RealBool,
    #[cfg(loom)]
    uses: loom::cell::UnsafeCell<()>,
}

// SAFETY: nothing is in the cell
#[cfg(loom)]
#[allow(unsafe_code, reason = "the cell is there to be watched, and is empty")]
unsafe impl Sync for Guarded {}

impl Guarded {
    pub(crate) fn new() -> Self {
        THERE.set(THERE.get() + 1);
        #[cfg(loom)]
        let uses = loom::cell::UnsafeCell::new(());
        // who uses it must have seen it made
        #[cfg(loom)]
        uses.with_mut(|_| ());
        Guarded {
            gone: RealBool::new(false),
            #[cfg(loom)]
            uses,
        }
    }

    #[track_caller]
    pub(crate) fn used(&self) {
        assert!(!self.gone.load(Ordering::Relaxed), "it was used after it was freed");
        #[cfg(loom)]
        self.uses.with(|_| ());
    }

    #[track_caller]
    pub(crate) fn gone(&self) {
        assert!(!self.gone.swap(true, Ordering::Relaxed), "it was freed twice");
        #[cfg(loom)]
        self.uses.with_mut(|_| ());
        THERE.set(THERE.get() - 1);
    }
}
