//! A kernel on several threads: data that helpers borrow must outlive their use, and the writes of
//! helpers must be visible to the caller.

use super::{eventually, explore};
use crate::fork_join::shared;
use crate::sync::{AtomicUsize, Guarded, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A value on the stack of the caller.
struct Borrowed {
    guard: Guarded,
    /// Written by the thread that runs the piece, relaxed.
    written: Vec<Written>,
}

#[derive(Default)]
struct Written {
    #[cfg(loom)]
    cell: loom::cell::UnsafeCell<u32>,
    #[cfg(shuttle)]
    cell: AtomicUsize,
}

// SAFETY: each piece is written by one thread, and read after all pieces have ended; `loom` checks
// both.
#[cfg(loom)]
#[allow(unsafe_code, reason = "the cell is there to be watched")]
unsafe impl Sync for Written {}

impl Written {
    #[cfg(loom)]
    #[allow(unsafe_code, reason = "the cell is there to be watched")]
    fn write(&self) {
        // SAFETY: only the thread that runs the piece writes the cell.
        self.cell.with_mut(|count| unsafe { *count += 1 });
    }

    #[cfg(loom)]
    #[allow(unsafe_code, reason = "the cell is there to be watched")]
    fn count(&self) -> usize {
        // SAFETY: read after all pieces have ended.
        self.cell.with(|count| unsafe { *count as usize })
    }

    #[cfg(shuttle)]
    fn write(&self) {
        self.cell.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(shuttle)]
    fn count(&self) -> usize {
        self.cell.load(Ordering::Relaxed)
    }
}

impl Borrowed {
    fn new(pieces: usize) -> Self {
        Borrowed { guard: Guarded::new(), written: (0..pieces).map(|_| Written::default()).collect() }
    }

    fn write(&self, piece: usize) {
        self.guard.used();
        self.written[piece].write();
        self.guard.used();
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.guard.gone();
    }
}

fn every_piece_once(pieces: usize, helpers: usize) {
    explore(move || {
        let borrowed = Borrowed::new(pieces);
        shared(pieces, helpers, &|piece| borrowed.write(piece));
        assert!(borrowed.written.iter().all(|written| written.count() == 1), "each piece runs once");
    });
}

#[test]
fn chunks_with_one_helper_run_once() {
    every_piece_once(3, 1);
}

#[test]
fn chunks_with_two_helpers_run_once() {
    every_piece_once(2, 2);
}

/// A piece is divided itself: the thread that waits for it, and those that have run the others, may
/// help with its parts, which are borrowed from another stack.
#[test]
fn nested_region_runs_each_chunk_once() {
    explore(|| {
        let borrowed = Borrowed::new(2);
        shared(2, 1, &|piece| {
            borrowed.write(piece);
            if piece == 1 {
                let within = Borrowed::new(2);
                shared(2, 1, &|part| within.write(part));
                assert!(within.written.iter().all(|written| written.count() == 1), "each part runs once");
            }
        });
        assert!(borrowed.written.iter().all(|written| written.count() == 1), "each piece runs once");
    });
}

/// Two kernels, one after the other: a helper of the first may arrive while the second runs.
#[test]
fn helper_arriving_late_does_not_touch_borrowed_data() {
    explore(|| {
        for _ in 0..2 {
            let borrowed = Borrowed::new(2);
            shared(2, 1, &|piece| borrowed.write(piece));
        }
    });
}

#[test]
fn panics_in_two_chunks_propagate_first() {
    explore(|| {
        let borrowed = Borrowed::new(3);
        let ended = Arc::new(AtomicUsize::new(0));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            shared(3, 1, &|piece| {
                borrowed.write(piece);
                ended.fetch_add(1, Ordering::Relaxed);
                if piece > 0 {
                    std::panic::resume_unwind(Box::new(piece));
                }
            });
        }));
        let first = caught.expect_err("two pieces panic").downcast::<usize>().expect("a number");
        assert_eq!(*first, 1);
        eventually(|| ended.load(Ordering::Relaxed) >= 2);
    });
}
