//! Large pages for large tensors.
//!
//! A processor keeps the addresses of some two thousand pages at hand. Of 4 KiB each that is less
//! than a few large tensors: then every page is looked up anew each time, in a guest of a virtual
//! machine in two tables. Linux has pages of 2 MiB, too, and mostly hands them out to those alone
//! who ask.

use dl_core::parallel::memory::Pooled;
use std::mem::MaybeUninit;

/// The bytes of a large page.
pub(super) const HUGE_PAGE_BYTES: usize = 1 << 21;

/// Asks the system for large pages, as many as fit into this room, which begins where one may and
/// has not been written to. It may decline: nobody knows but by the time.
pub(super) fn advise_huge_pages<A>(memory: &mut [MaybeUninit<A>]) {
    let bytes = size_of_val(memory) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: all of this memory is lent to us alone, and the advice does not change what is there
    unsafe {
        libc::madvise(memory.as_mut_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}

/// Lets go of the pages of these numbers, which may be anything from now on: they take no memory
/// until somebody writes there.
pub(super) fn release_pages<A: Pooled>(numbers: &mut [A]) {
    /// Pages of Linux are that large at most, and mostly smaller.
    const PAGE_BYTES: usize = 1 << 16;

    let from = numbers.as_ptr().align_offset(PAGE_BYTES).min(numbers.len());
    let pages = &mut numbers[from..];
    let bytes = size_of_val(pages) / PAGE_BYTES * PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: all of this memory is lent to us alone, it begins and ends where a page of up to 64
    // KiB does, and whatever is read there next is a number: zero, if the memory is the allocator's
    // alone, else what is in the file behind it
    unsafe {
        libc::madvise(pages.as_mut_ptr().cast(), bytes, libc::MADV_DONTNEED);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}
