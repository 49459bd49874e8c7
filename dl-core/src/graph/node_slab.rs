//! Where the memory of nodes comes from: blocks of eight kilobytes.
//!
//! To ask a general allocator for each node takes longer than a scalar operation, and as a node is
//! to lie on one cache line, a second line of memory is lost for each: a large graph then spreads
//! over twice as many pages, in pieces that the allocator puts together again and again. A block
//! has room for 127 nodes, side by side.
//!
//! The cells of a block are handed out together, to the list of a thread (see `handle.rs`), and
//! come back in any order, from any thread; until the last of them has come back, none is used
//! again. Then the block is kept for whoever needs one, as large buffers are (see `buffers.rs`): a
//! page from the system costs more than all that is done with the nodes that lie there. So a node
//! that is alive, or memory that a thread keeps for its next one, keeps its block: usually they lie
//! side by side.

use crate::graph::node::Node;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Two blocks and what an allocator writes before each have room side by side.
const BLOCK: Layout = match Layout::from_size_align(BYTES - 16, BYTES) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};
const BYTES: usize = 8192;
/// The last line holds the count of the cells that have not come back.
pub(super) const CELLS: usize = BYTES / size_of::<Node>() - 1;
/// No more than 128 MB are kept: a graph of two million nodes.
const KEPT: usize = (128 << 20) / BYTES;

/// A block, none of whose cells is out.
struct Block(NonNull<Node>);

// SAFETY: it is memory, and nobody else has it
unsafe impl Send for Block {}

/// Those that nobody uses.
static FREE: Mutex<Vec<Block>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Block>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Block {
    fn new() -> Block {
        // SAFETY: the layout is not empty
        let Some(block) = NonNull::new(unsafe { alloc(BLOCK) }) else { handle_alloc_error(BLOCK) };
        Block(block.cast())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated it with this layout, and no cell of it is in use
        unsafe { dealloc(self.0.as_ptr().cast(), BLOCK) };
    }
}

/// The cells of a block that nobody uses.
pub(super) fn take_cells() -> [NonNull<Node>; CELLS] {
    let kept = free().pop();
    let block = std::mem::ManuallyDrop::new(kept.unwrap_or_else(Block::new)).0;
    // SAFETY: the last line is within the block, and aligned
    unsafe { block.add(CELLS).cast::<AtomicUsize>().write(AtomicUsize::new(CELLS)) };
    // SAFETY: as above
    std::array::from_fn(|place| unsafe { block.add(place) })
}

/// The block of a cell: it lies at a multiple of its size.
#[inline]
pub(super) fn of(cell: NonNull<Node>) -> NonNull<Node> {
    let within = cell.addr().get() % BYTES;
    // SAFETY: so far before the cell its block begins
    unsafe { cell.cast::<u8>().sub(within) }.cast()
}

/// Gives back so many cells of a block.
///
/// # Safety
/// They came from [`take_cells`], none of them has come back since, and nobody uses them any more.
pub(super) unsafe fn give_back(block: NonNull<Node>, cells: usize) {
    // SAFETY: the block is there until its last cell has come back, which is one of these or a
    // later one
    let out = unsafe { block.add(CELLS).cast::<AtomicUsize>().as_ref() };
    if out.fetch_sub(cells, Ordering::Release) == cells {
        fence(Ordering::Acquire);
        let block = Block(block);
        let mut free = free();
        if free.len() < KEPT {
            free.push(block);
        }
    }
}

/// Hands all blocks that nobody uses back to the allocator.
pub(super) fn release() {
    let all = std::mem::take(&mut *free());
    drop(all);
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    struct Cells([NonNull<Node>; CELLS]);

    // SAFETY: nobody else has them
    unsafe impl Send for Cells {}

    #[test]
    fn cells_are_lines_of_their_own_and_come_back_from_anywhere() {
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
                    // SAFETY: of each block the other half comes back elsewhere
                    cells[CELLS / 2..].iter().for_each(|&cell| unsafe { give_back(of(cell), 1) });
                });
                // SAFETY: as above
                unsafe { give_back(of(here[0]), CELLS / 2) };
            }
        });
    }
}
