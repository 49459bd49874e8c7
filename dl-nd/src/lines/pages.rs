//! Large pages for large tensors.
//!
//! A processor keeps the addresses of some two thousand pages at hand. Of 4 KiB each that is less than a few large tensors: then every page is looked up anew each time, in a guest of a
//! virtual machine in two tables. Linux has pages of 2 MiB, too, and mostly hands them out to those alone who ask.

use dl_core::Number;
use std::mem::MaybeUninit;

/// The bytes of a large page.
pub(super) const LARGE_PAGE_BYTES: usize = 1 << 21;

/// Asks the system for large pages, as many as fit into this room, which begins where one may and has not been written to. It may decline: nobody knows but by the time.
pub(super) fn ask_for_large<A>(room: &mut [MaybeUninit<A>]) {
    let bytes = size_of_val(room) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: all of this memory is lent to us alone, and the advice does not change what is there
    unsafe {
        libc::madvise(room.as_mut_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}

/// Hands zeros back to the system, which nobody is going to read or write. They stay where they are, without memory.
pub(super) fn give_back<A: Number>(zeros: &mut [A]) {
    /// Where pages are larger, the system declines.
    const PAGE_BYTES: usize = 1 << 12;

    debug_assert!(zeros.iter().all(|&x| x == A::zero()));
    let from = zeros.as_ptr().align_offset(PAGE_BYTES).min(zeros.len());
    let pages = &mut zeros[from..];
    let bytes = size_of_val(pages) / PAGE_BYTES * PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: all of this memory is lent to us alone. It is an allocator's, so private and of no file: what is read there next is zero, as it was, for which all bits of a number are 0
    unsafe {
        libc::madvise(pages.as_mut_ptr().cast(), bytes, libc::MADV_DONTNEED);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}
