//! Panels that are multiplied slice by slice.
//!
//! A panel of a deep product is larger than the nearest cache, and each tile would read it from the
//! second one. So it is copied and multiplied a few of its rows at a time, which stay in the
//! nearest cache while all tiles are multiplied by them, and what the sums have come to is kept in
//! between. The sums run over the same terms in the same order, and nothing is rounded that would
//! not be anyway: to the bit it is the same.
//!
//! What a slice is copied from mostly lies in a cache that is far away, in lines that the processor
//! cannot foresee, as they are rows apart. So the tiles of a slice ask for those of the next one.
//! Without that, an eighth of the time of a product with a hundred rows goes by while slices are
//! copied.

use super::dispatch::KernelTable;
use super::microkernel::{KSlice, LINES, PanelPrefetch, RawMatrix, STEPS, Tile};
use super::pack::pack;
use super::tiling::{Gemm, K_BLOCK, chunks, even_parts};
use crate::tensor::Element;
use crate::tensor::aligned::with_thread_scratch;

/// A slice takes at most so many bytes: it stays in the nearest cache, which has 32 or 48 KB where
/// registers are wide enough for panels that large.
const SLICE_BYTES: usize = 1 << 15;

/// So many rows of a panel are a slice, at most.
pub(super) fn longest<A: Element>(kernels: &KernelTable<A>) -> usize {
    SLICE_BYTES / (kernels.tile_columns() * size_of::<A>()) / (STEPS * LINES) * (STEPS * LINES)
}

/// Multiplies by a panel of the full width, as one part of the sums.
///
/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. The columns of
/// `c` lie one after the other, and unless `beta` is 0, so do those of what is old.
pub(super) unsafe fn multiply_slices<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) {
    let slice = longest(kernels) * kernels.tile_columns();
    with_thread_scratch(slice + product.rows * kernels.tile_columns(), |room: *mut A| {
        // SAFETY: as the caller says; there is room for a slice, and for as many sums as there are
        // results
        unsafe { multiply_in(room, room.wrapping_add(slice), kernels, product) }
    });
}

/// The same, with room for the copy of a slice, and for sums.
///
/// # Safety
/// That of [`multiply_slices`], and all of the room can be written.
unsafe fn multiply_in<A: Element>(room: *mut A, kept: *mut A, kernels: &KernelTable<A>, product: &Gemm<A>) {
    let &Gemm { rows, depth, columns: width, alpha, a, b, beta, addend, c, epilogue } = product;
    debug_assert!(width == kernels.tile_columns() && (1..=K_BLOCK).contains(&depth), "it is a panel, and one part");
    let kept = RawMatrix { start: kept, row: width as isize, column: 1 };
    let each = depth.div_ceil(depth.div_ceil(longest(kernels))).next_multiple_of(STEPS * LINES);
    for (from, len) in chunks(depth, each) {
        // SAFETY: as the caller says, for this slice, which is not longer than the longest
        unsafe { pack(kernels, b.at(from, 0).transposed(), width, width, len, room) };
        let is_last = from + len == depth;
        // the next one, or, as whoever is through with a panel mostly goes on to its right, the
        // first one there
        let next = if is_last { b.at(0, width) } else { b.at(from + len, 0) };
        let mut asked = 0;
        for (row, rows) in even_parts(rows, kernels.tile_rows()) {
            let (a, addend, c, kept) = (a.at(row, from), addend.at(row, 0), c.at(row, 0), kept.at(row, 0));
            let sums = (from > 0).then_some(kept.as_const());
            let ahead = PanelPrefetch::of_panel(next, width, len, asked);
            asked += len / (STEPS * LINES);
            let (b, b_row, last) = (room.cast_const(), width as isize, kernels.lanes);
            // what is kept is written as it is
            let (alpha, beta, to) = if is_last { (alpha, beta, c) } else { (A::of(1.0), A::zero(), kept) };
            let (addend, addend_row, c, c_row) = (addend.start, addend.row, to.start, to.row);
            let tile = Tile { depth: len, a, b, b_row, last, addend, addend_row, c, c_row, alpha, beta };
            // SAFETY: it is a tile of this size, and its sums are so many; the slice has been
            // copied
            unsafe {
                (kernels.slices[rows - 1])(&tile, &KSlice { sums, ahead });
                if is_last {
                    epilogue.apply(rows, width, to);
                }
            }
        }
    }
}
