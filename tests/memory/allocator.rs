//! The system's allocator, which counts what is alive.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

static BYTES: AtomicIsize = AtomicIsize::new(0);
static BLOCKS: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// What is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alive {
    pub(crate) bytes: isize,
    pub(crate) blocks: isize,
}

pub(crate) fn alive() -> Alive {
    Alive { bytes: BYTES.load(Relaxed), blocks: BLOCKS.load(Relaxed) }
}

/// The most bytes that were alive at a time while `f` ran, beyond those that were before.
pub(crate) fn peak_of<R>(f: impl FnOnce() -> R) -> (R, isize) {
    let before = alive().bytes;
    PEAK.store(before, Relaxed);
    let result = f();
    (result, PEAK.load(Relaxed) - before)
}

fn count(bytes: isize, blocks: isize) {
    let now = BYTES.fetch_add(bytes, Relaxed) + bytes;
    BLOCKS.fetch_add(blocks, Relaxed);
    PEAK.fetch_max(now, Relaxed);
}

pub(crate) struct Counting;

// SAFETY: every call is passed on to the system's allocator as it is; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize, 1);
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize), -1);
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize, 0);
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.realloc(block, layout, size) }
    }
}
