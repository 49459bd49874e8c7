//! The system allocator, with counts of live blocks and bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

static BYTES: AtomicIsize = AtomicIsize::new(0);
static BLOCKS: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// Live blocks and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alive {
    pub(crate) bytes: isize,
    pub(crate) blocks: isize,
}

pub(crate) fn alive() -> Alive {
    Alive { bytes: BYTES.load(Relaxed), blocks: BLOCKS.load(Relaxed) }
}

/// Runs `f`. Returns the peak of live bytes during the call, relative to the bytes before it.
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

// SAFETY: every call is forwarded to the system allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize, 1);
        // SAFETY: the caller upholds the contract of this method, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize), -1);
        // SAFETY: the caller upholds the contract of this method, which is the same.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize, 0);
        // SAFETY: the caller upholds the contract of this method, which is the same.
        unsafe { System.realloc(block, layout, size) }
    }
}
