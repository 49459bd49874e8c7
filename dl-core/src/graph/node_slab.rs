//! Slab allocator of nodes: slabs of 8 KB with 127 cells of a cache line each.
//!
//! A general allocator takes longer for one node than a scalar operation does, and an aligned
//! allocation of one cache line costs a second line for its header, so a large graph would occupy
//! twice as many pages.
//!
//! All cells of a slab are handed out together, to the free list of one thread (see `node_ref.rs`).
//! They are returned in any order by any thread. Invariant: a slab must not be reused or freed
//! before all its cells have been returned. Then it is kept in the global list `FREE`, as a new
//! page from the operating system costs more than all operations on its nodes. One live node, or
//! one cell in the free list of a thread, keeps its slab alive; in most programs such cells are
//! adjacent.

use crate::graph::node::Node;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The size leaves room for the header of the allocator: two slabs with headers fit side by side.
const BLOCK: Layout = match Layout::from_size_align(BYTES - 16, BYTES) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};
const BYTES: usize = 8192;
/// The last line of a slab holds the count of cells that have not been returned.
pub(super) const CELLS: usize = BYTES / size_of::<Node>() - 1;
/// Capacity of `FREE`: 128 MB, the nodes of a graph of two million.
const KEPT: usize = (128 << 20) / BYTES;

/// A slab with no cell in use.
struct Block(NonNull<Node>);

// SAFETY: a slab without cells in use is unaliased memory.
unsafe impl Send for Block {}

/// The unused slabs.
static FREE: Mutex<Vec<Block>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Block>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Block {
    fn new() -> Block {
        // SAFETY: the layout has a size greater than zero.
        let Some(block) = NonNull::new(unsafe { alloc(BLOCK) }) else { handle_alloc_error(BLOCK) };
        Block(block.cast())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the slab with this layout, and no cell of it is in use.
        unsafe { dealloc(self.0.as_ptr().cast(), BLOCK) };
    }
}

/// Takes all cells of an unused slab.
pub(super) fn take_cells() -> [NonNull<Node>; CELLS] {
    let kept = free().pop();
    let block = std::mem::ManuallyDrop::new(kept.unwrap_or_else(Block::new)).0;
    // SAFETY: the last line is within the slab, aligned, and no other reference to it exists.
    unsafe { block.add(CELLS).cast::<AtomicUsize>().write(AtomicUsize::new(CELLS)) };
    // SAFETY: `place` is below `CELLS`, so the cell is within the slab.
    std::array::from_fn(|place| unsafe { block.add(place) })
}

/// The slab of a cell. A slab is aligned to its size.
#[inline]
pub(super) fn of(cell: NonNull<Node>) -> NonNull<Node> {
    let within = cell.addr().get() % BYTES;
    // SAFETY: the slab begins at the next lower multiple of `BYTES`, in the same allocation.
    unsafe { cell.cast::<u8>().sub(within) }.cast()
}

/// Returns this many cells of a slab.
///
/// # Safety
/// The cells must have come from [`take_cells`], must not have been returned since, and must not be
/// used afterwards.
pub(super) unsafe fn give_back(block: NonNull<Node>, cells: usize) {
    // SAFETY: the slab is alive until its last cell is returned, and these cells are not yet
    // returned.
    let out = unsafe { block.add(CELLS).cast::<AtomicUsize>().as_ref() };
    // Release: uses of these cells happen before the reuse of the slab.
    if out.fetch_sub(cells, Ordering::Release) == cells {
        // Synchronizes with the Release decrements of all other threads.
        fence(Ordering::Acquire);
        let block = Block(block);
        let mut free = free();
        if free.len() < KEPT {
            free.push(block);
        }
    }
}

/// Returns all unused slabs to the allocator.
pub(super) fn release() {
    let all = std::mem::take(&mut *free());
    drop(all);
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    struct Cells([NonNull<Node>; CELLS]);

    // SAFETY: these cells were taken from a slab, and no other reference to them exists.
    unsafe impl Send for Cells {}

    #[test]
    fn cells_returned_by_any_thread_are_distinct_cache_lines() {
        let blocks: Vec<_> = (0..100).map(|_| Cells(take_cells())).collect();
        let lines: HashSet<usize> =
            blocks.iter().flat_map(|Cells(cells)| cells.map(|cell| cell.addr().get())).collect();
        assert_eq!(lines.len(), 100 * CELLS);
        assert!(lines.iter().all(|line| line % size_of::<Node>() == 0));
        std::thread::scope(|scope| {
            for Cells(cells) in blocks {
                let (here, there) = (cells, Cells(cells));
                scope.spawn(move || {
                    let Cells(cells) = { there };
                    // SAFETY: each cell is returned once: the other half of the slab is returned by
                    // the other thread.
                    cells[CELLS / 2..].iter().for_each(|&cell| unsafe { give_back(of(cell), 1) });
                });
                // SAFETY: as above.
                unsafe { give_back(of(here[0]), CELLS / 2) };
            }
        });
    }
}
