//! The number of a thread, by which work returns to the thread that has its data in its caches.

use crate::sync::{AtomicUsize, Ordering, globals, thread_local};
use std::cell::Cell;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The number of this thread. Threads get consecutive numbers in the order of their first call.
#[inline]
pub fn thread_number() -> usize {
    match NUMBER.get() {
        usize::MAX => {
            globals! {
                static NEXT: AtomicUsize = AtomicUsize::new(0);
            }
            let number = NEXT.fetch_add(1, Ordering::Relaxed); // Relaxed: only a counter
            NUMBER.set(number);
            number
        }
        number => number,
    }
}

/// Gives this thread another number, in a test or a model.
pub fn set_thread_number(number: usize) {
    NUMBER.set(number);
}
