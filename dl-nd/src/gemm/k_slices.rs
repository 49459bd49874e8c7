//! K-slicing: panels that are packed and multiplied in slices of a few rows.
//!
//! A panel of a deep product is larger than L1, so each tile would read it from L2. A slice of it
//! stays in L1 while all tiles are multiplied by it; the partial sums are stored between slices.
//! The terms are added in the same order and with the same roundings, so the bits of the result do
//! not change.
//!
//! The source of a slice is usually in a distant cache, in rows that the hardware prefetcher does
//! not predict. The tiles of a slice therefore prefetch the source of the next one. Without this,
//! packing would take an eighth of the time of a product with a hundred rows.

use super::dispatch::KernelTable;
use super::microkernel::{KSlice, LINES, NextPanel, PanelPrefetch, RawMatrix, STEPS, Tile};
use super::pack::pack;
use super::tiling::{Gemm, K_BLOCK, chunks, even_parts};
use crate::tensor::Element;
use crate::tensor::aligned::with_thread_scratch;

/// The maximum size of a slice. It fits into L1, which has 32 or 48 KB on processors with registers
/// wide enough for such panels.
const SLICE_BYTES: usize = 1 << 15;

/// The maximum number of rows of a slice.
pub(super) fn longest<A: Element>(kernels: &KernelTable<A>) -> usize {
    SLICE_BYTES / (kernels.tile_columns() * size_of::<A>()) / (STEPS * LINES) * (STEPS * LINES)
}

/// Multiplies by a panel of full width, as one k-block.
///
/// # Safety
/// The operands must be readable, and `c` writable and not aliased except by the addend. The
/// columns of `c` and, unless `beta` is 0, of the addend must be contiguous.
pub(super) unsafe fn multiply_slices<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) {
    let slice = longest(kernels) * kernels.tile_columns();
    with_thread_scratch(slice + product.rows * kernels.tile_columns(), |scratch: *mut A| {
        // SAFETY: guaranteed by the caller; the scratch memory has room for a slice, and for a
        // partial sum per element of the result
        unsafe { multiply_in(scratch, scratch.wrapping_add(slice), kernels, product) }
    });
}

/// The same, with scratch memory for a packed slice and for partial sums.
///
/// # Safety
/// That of [`multiply_slices`]; the scratch memory must be writable.
unsafe fn multiply_in<A: Element>(scratch: *mut A, kept: *mut A, kernels: &KernelTable<A>, product: &Gemm<A>) {
    let &Gemm { rows, depth, columns: width, alpha, a, b, beta, addend, c, epilogue } = product;
    debug_assert!(width == kernels.tile_columns() && (1..=K_BLOCK).contains(&depth), "it is a panel, and one part");
    let kept = RawMatrix { start: kept, row: width as isize, column: 1 };
    let each = depth.div_ceil(depth.div_ceil(longest(kernels))).next_multiple_of(STEPS * LINES);
    for (from, len) in chunks(depth, each) {
        // SAFETY: guaranteed by the caller for this slice, which has at most the maximum length
        unsafe { pack(kernels, b.at(from, 0).transposed(), width, width, len, scratch) };
        let is_last = from + len == depth;
        // the next slice, or the first one of the panel to the right, which usually follows
        let next = if is_last { b.at(0, width) } else { b.at(from + len, 0) };
        let mut asked = 0;
        for (row, rows) in even_parts(rows, kernels.tile_rows()) {
            let (a, addend, c, kept) = (a.at(row, from), addend.at(row, 0), c.at(row, 0), kept.at(row, 0));
            let sums = (from > 0).then_some(kept.as_const());
            let ahead = PanelPrefetch::of_panel(next, width, len, asked);
            asked += len / (STEPS * LINES);
            let (b, b_row, last) = (scratch.cast_const(), width as isize, kernels.lanes);
            // partial sums are stored unscaled
            let (alpha, beta, to) = if is_last { (alpha, beta, c) } else { (A::of(1.0), A::zero(), kept) };
            let (addend, addend_row, c, c_row) = (addend.start, addend.row, to.start, to.row);
            let next = NextPanel::NONE;
            let tile = Tile { depth: len, a, b, b_row, last, addend, addend_row, c, c_row, alpha, beta, next };
            // SAFETY: the tile has this size, and a partial sum per element; the slice has been
            // packed
            unsafe {
                (kernels.slices[rows - 1])(&tile, &KSlice { sums, ahead });
                if is_last {
                    epilogue.apply(rows, width, to);
                }
            }
        }
    }
}
