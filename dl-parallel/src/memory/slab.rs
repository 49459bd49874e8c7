//! Slab allocator of [cells](Cell) of a cache line: slabs of 8 KB with 127 cells each.
//!
//! A general allocator takes longer for one cell than a scalar operation does, and an aligned
//! allocation of one cache line costs a second line for its header, so a large graph would occupy
//! twice as many pages.
//!
//! All cells of a slab are handed out together, to the [cache](CellCache) of one thread. They are
//! returned in any order by any thread. Invariant: a slab must not be reused or freed before all
//! its cells have been returned. Then it is kept in the global list `FREE`, as a new page from the
//! operating system costs more than all operations on its nodes. One live node, or one cell in the
//! cache of a thread, keeps its slab alive; in most programs such cells are adjacent.

use crate::thresholds::{CACHED_CELLS, SLAB_BYTES};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell as StdCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The memory of a cell: a cache line.
#[repr(align(64))]
pub struct Cell(#[allow(dead_code, reason = "storage only")] MaybeUninit<[u8; 64]>);

/// The size leaves room for the header of the allocator: two slabs with headers fit side by side.
const SLAB: Layout = match Layout::from_size_align(BYTES - 16, BYTES) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};
const BYTES: usize = 8192;
/// The last line of a slab holds the count of cells that have not been returned.
pub const CELLS: usize = BYTES / size_of::<Cell>() - 1;

/// A slab with no cell in use.
struct Slab(NonNull<Cell>);

// SAFETY: a slab without cells in use is unaliased memory.
unsafe impl Send for Slab {}

/// The unused slabs.
static FREE: Mutex<Vec<Slab>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Slab>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slab {
    fn new() -> Slab {
        // SAFETY: the layout has a size greater than zero.
        let Some(slab) = NonNull::new(unsafe { alloc(SLAB) }) else { handle_alloc_error(SLAB) };
        Slab(slab.cast())
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the slab with this layout, and no cell of it is in use.
        unsafe { dealloc(self.0.as_ptr().cast(), SLAB) };
    }
}

/// Takes all cells of an unused slab.
fn take_cells() -> [NonNull<Cell>; CELLS] {
    let kept = free().pop();
    let slab = std::mem::ManuallyDrop::new(kept.unwrap_or_else(Slab::new)).0;
    // SAFETY: the last line is within the slab, aligned, and no other reference to it exists.
    unsafe { slab.add(CELLS).cast::<AtomicUsize>().write(AtomicUsize::new(CELLS)) };
    // SAFETY: `place` is below `CELLS`, so the cell is within the slab.
    std::array::from_fn(|place| unsafe { slab.add(place) })
}

/// The slab of a cell. A slab is aligned to its size.
#[inline]
fn slab_of(cell: NonNull<Cell>) -> NonNull<Cell> {
    let within = cell.addr().get() % BYTES;
    // SAFETY: the slab begins at the next lower multiple of `BYTES`, in the same allocation.
    unsafe { cell.cast::<u8>().sub(within) }.cast()
}

/// Whether these cells are of the same slab.
pub fn are_of_one_slab(a: NonNull<Cell>, b: NonNull<Cell>) -> bool {
    slab_of(a) == slab_of(b)
}

/// Returns this many cells of a slab.
///
/// # Safety
/// The cells must have come from [`take_cells`], must not have been returned since, and must not be
/// used afterwards.
unsafe fn return_cells(slab: NonNull<Cell>, cells: usize) {
    // SAFETY: the slab is alive until its last cell is returned, and these cells are not yet
    // returned.
    let out = unsafe { slab.add(CELLS).cast::<AtomicUsize>().as_ref() };
    // Release: uses of these cells happen before the reuse of the slab.
    if out.fetch_sub(cells, Ordering::Release) == cells {
        // Synchronizes with the Release decrements of all other threads.
        fence(Ordering::Acquire);
        let slab = Slab(slab);
        let mut free = free();
        if free.len() < SLAB_BYTES / BYTES {
            free.push(slab);
        }
    }
}

/// Returns all unused slabs to the allocator.
pub(super) fn release() {
    let all = std::mem::take(&mut *free());
    drop(all);
}

/// Returns a cell to its slab.
///
/// # Safety
/// The cell must have come from a [cache](CellCache), and must not be used afterwards.
pub unsafe fn give_back(cell: NonNull<Cell>) {
    if cfg!(any(shuttle, loom)) {
        return; // a model checker inspects freed memory
    }
    // SAFETY: guaranteed by the caller; every cell of a cache is one of a slab.
    unsafe { return_cells(slab_of(cell), 1) };
}

/// The free cells of a thread, which keeps it as a thread-local value. Dropping it returns them.
pub struct CellCache {
    /// An intrusive singly linked list in the free memory itself.
    free: StdCell<Option<NonNull<Free>>>,
    length: StdCell<usize>,
    /// A slab, and the number of its cells that were returned but not yet reported to it.
    /// Consecutive cells are mostly of one slab, so the reports are batched.
    returned: StdCell<(Option<NonNull<Cell>>, usize)>,
}

struct Free {
    next: Option<NonNull<Free>>,
}

impl CellCache {
    /// An empty cache.
    #[allow(clippy::new_without_default, reason = "`const`, for thread-local values")]
    pub const fn new() -> Self {
        CellCache { free: StdCell::new(None), length: StdCell::new(0), returned: StdCell::new((None, 0)) }
    }

    /// A cell of the cache, if it is not empty.
    #[inline]
    pub fn take(&self) -> Option<NonNull<Cell>> {
        let free = self.free.get()?;
        // SAFETY: only this thread accesses the list, and `keep` initialized the link of each
        // element.
        let next = unsafe { free.as_ref() }.next;
        next.inspect(|next| prefetch(next.as_ptr()));
        self.free.set(next);
        self.length.set(self.length.get() - 1);
        Some(free.cast())
    }

    /// A cell of a slab that was unused. The cache gets the other cells.
    #[cold]
    pub fn refill(&self) -> NonNull<Cell> {
        if cfg!(any(shuttle, loom)) {
            return NonNull::from(Box::leak(Box::<Cell>::new_uninit())).cast(); // never freed
        }
        let [first, others @ ..] = take_cells();
        for cell in others.into_iter().rev() {
            // SAFETY: the cell was just taken from the slab and is unused.
            unsafe { self.keep(cell) };
        }
        first
    }

    /// Keeps a cell, or returns it to its slab if the cache is full.
    ///
    /// # Safety
    /// The cell must have come from a cache, and must not be used afterwards.
    #[inline]
    pub unsafe fn keep(&self, cell: NonNull<Cell>) {
        if self.length.get() == CACHED_CELLS {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.give_back(cell) };
        }
        let free = cell.cast::<Free>();
        // SAFETY: a cell is large enough and aligned for a link, and the caller gives it up.
        unsafe { free.write(Free { next: self.free.get() }) };
        self.free.set(Some(free));
        self.length.set(self.length.get() + 1);
    }

    /// Returns a cell to its slab, which may learn of it with the cells that follow.
    ///
    /// # Safety
    /// The cell must have come from a cache, and must not be used afterwards.
    pub unsafe fn give_back(&self, cell: NonNull<Cell>) {
        if cfg!(any(shuttle, loom)) {
            return; // a model checker inspects freed memory
        }
        let slab = slab_of(cell);
        match self.returned.get() {
            (Some(last), cells) if last == slab => self.returned.set((Some(slab), cells + 1)),
            _ => {
                self.report();
                self.returned.set((Some(slab), 1));
            }
        }
    }

    /// Reports the returned cells to their slab.
    fn report(&self) {
        if let (Some(slab), cells) = self.returned.take() {
            // SAFETY: these cells were passed to `give_back`, so they are unused and came from this
            // slab. The slab is alive until they are reported.
            unsafe { return_cells(slab, cells) };
        }
    }

    /// Returns all but so many cells to their slabs.
    pub fn trim(&self, length: usize) {
        while self.length.get() > length {
            let Some(cell) = self.take() else { break };
            // SAFETY: every element of the list came from a cache, and `take` has removed this one.
            unsafe { self.give_back(cell) };
        }
        self.report();
    }
}

impl Drop for CellCache {
    fn drop(&mut self) {
        self.trim(0);
    }
}

/// Prefetches the cache line of any address, valid or not.
#[inline(always)]
pub fn prefetch<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch does not fault at any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    struct Cells([NonNull<Cell>; CELLS]);

    // SAFETY: these cells were taken from a slab, and no other reference to them exists.
    unsafe impl Send for Cells {}

    #[test]
    fn cells_returned_by_any_thread_are_distinct_cache_lines() {
        let slabs: Vec<_> = (0..100).map(|_| Cells(take_cells())).collect();
        let lines: HashSet<usize> = slabs.iter().flat_map(|Cells(cells)| cells.map(|cell| cell.addr().get())).collect();
        assert_eq!(lines.len(), 100 * CELLS);
        assert!(lines.iter().all(|line| line % size_of::<Cell>() == 0));
        std::thread::scope(|scope| {
            for Cells(cells) in slabs {
                let (here, there) = (cells, Cells(cells));
                scope.spawn(move || {
                    let Cells(cells) = { there };
                    // SAFETY: each cell is returned once: the other half of the slab is returned by
                    // the other thread.
                    cells[CELLS / 2..].iter().for_each(|&cell| unsafe { give_back(cell) });
                });
                // SAFETY: as above.
                unsafe { return_cells(slab_of(here[0]), CELLS / 2) };
            }
        });
    }

    #[test]
    fn cache_reuses_last_kept_cell_and_is_bounded() {
        let cache = CellCache::new();
        assert!(cache.take().is_none());
        let first = cache.refill();
        assert_eq!(cache.length.get(), CELLS - 1);
        // SAFETY: the cell came from the cache and is unused.
        unsafe { cache.keep(first) };
        assert_eq!(cache.take(), Some(first));
        let mut taken = vec![first];
        taken.extend((0..CACHED_CELLS + CELLS).map(|_| cache.take().unwrap_or_else(|| cache.refill())));
        // SAFETY: as above, for each cell once.
        taken.into_iter().for_each(|cell| unsafe { cache.keep(cell) });
        assert_eq!(cache.length.get(), CACHED_CELLS);
        cache.trim(CELLS);
        assert_eq!(cache.length.get(), CELLS);
    }
}
