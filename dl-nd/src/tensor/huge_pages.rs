//! Huge pages for large tensors.
//!
//! The TLB of a processor holds about two thousand pages. At 4 KiB each, they cover less than a few
//! large tensors, so that most page accesses require a page walk (in a virtual machine, through two
//! levels of page tables). Linux also has pages of 2 MiB, but mostly grants them on request only.

use dl_core::parallel::memory::Pooled;
use std::mem::MaybeUninit;

/// Size of a huge page in bytes.
pub(super) const HUGE_PAGE_BYTES: usize = 1 << 21;

/// Requests huge pages for as many whole huge pages as fit into `memory`. The memory must start at
/// a huge page and must not have been written to. The system may ignore the request, which has no
/// effect but on speed.
pub(super) fn advise_huge_pages<A>(memory: &mut [MaybeUninit<A>]) {
    let bytes = size_of_val(memory) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: this memory is exclusively borrowed, and the advice does not change its contents
    unsafe {
        libc::madvise(memory.as_mut_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}

/// Releases the physical pages of these numbers; their values become unspecified. They take no
/// memory until they are written to again.
pub(super) fn release_pages<A: Pooled>(numbers: &mut [A]) {
    /// Upper bound of the regular page size of Linux.
    const PAGE_BYTES: usize = 1 << 16;

    let from = numbers.as_ptr().align_offset(PAGE_BYTES).min(numbers.len());
    let pages = &mut numbers[from..];
    let bytes = size_of_val(pages) / PAGE_BYTES * PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: this memory is exclusively borrowed. It starts and ends at a page of up to 64 KiB.
    // Later reads see valid numbers: zeros for anonymous memory, the contents of the file for
    // mapped files
    unsafe {
        libc::madvise(pages.as_mut_ptr().cast(), bytes, libc::MADV_DONTNEED);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}
