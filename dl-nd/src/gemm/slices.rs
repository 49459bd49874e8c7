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

use super::Multiply;
use super::kernels::Kernels;
use super::pack::pack;
use super::run::{DEPTH, Product, even, pieces};
use super::tile::{Ahead, LINES, Raw, STEPS, Slice, Tile};
use crate::lines::with_own_room;

/// A slice takes at most so many bytes: it stays in the nearest cache, which has 32 or 48 KB where
/// registers are wide enough for panels that large.
const BYTES: usize = 1 << 15;

/// So many rows of a panel are a slice, at most.
pub(super) fn longest<A: Multiply>(kernels: &Kernels<A>) -> usize {
    BYTES / (kernels.wide() * size_of::<A>()) / (STEPS * LINES) * (STEPS * LINES)
}

/// Multiplies by a panel of the full width, as one part of the sums.
///
/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. The columns of
/// `c` lie one after the other, and unless `beta` is 0, so do those of what is old.
pub(super) unsafe fn multiply_slices<A: Multiply>(kernels: &Kernels<A>, product: &Product<A>) {
    let slice = longest(kernels) * kernels.wide();
    with_own_room(slice + product.rows * kernels.wide(), |room: *mut A| {
        // SAFETY: as the caller says; there is room for a slice, and for as many sums as there are
        // results
        unsafe { multiply_in(room, room.wrapping_add(slice), kernels, product) }
    });
}

/// The same, with room for the copy of a slice, and for sums.
///
/// # Safety
/// That of [`multiply_slices`], and all of the room can be written.
unsafe fn multiply_in<A: Multiply>(room: *mut A, kept: *mut A, kernels: &Kernels<A>, product: &Product<A>) {
    let &Product { rows, depth, columns: width, alpha, a, b, beta, old, c, finish } = product;
    debug_assert!(width == kernels.wide() && (1..=DEPTH).contains(&depth), "it is a panel, and one part");
    let kept = Raw { start: kept, row: width as isize, column: 1 };
    let each = depth.div_ceil(depth.div_ceil(longest(kernels))).next_multiple_of(STEPS * LINES);
    for (from, len) in pieces(depth, each) {
        // SAFETY: as the caller says, for this slice, which is not longer than the longest
        unsafe { pack(kernels, b.at(from, 0).transposed(), width, width, len, room) };
        let is_last = from + len == depth;
        // the next one, or, as whoever is through with a panel mostly goes on to its right, the
        // first one there
        let next = if is_last { b.at(0, width) } else { b.at(from + len, 0) };
        let mut asked = 0;
        for (row, rows) in even(rows, kernels.high()) {
            let (a, old, c, kept) = (a.at(row, from), old.at(row, 0), c.at(row, 0), kept.at(row, 0));
            let sums = (from > 0).then_some(kept.to_read());
            let ahead = Ahead::of_panel(next, width, len, asked);
            asked += len / (STEPS * LINES);
            let (b, b_row, last) = (room.cast_const(), width as isize, kernels.lanes);
            // what is kept is written as it is
            let (alpha, beta, to) = if is_last { (alpha, beta, c) } else { (A::one(), A::zero(), kept) };
            let (old, old_row, c, c_row) = (old.start, old.row, to.start, to.row);
            let tile = Tile { depth: len, a, b, b_row, last, old, old_row, c, c_row, alpha, beta };
            // SAFETY: it is a tile of this size, and its sums are so many; the slice has been
            // copied
            unsafe {
                (kernels.slices[rows - 1])(&tile, &Slice { sums, ahead });
                if is_last {
                    finish.apply(rows, width, to);
                }
            }
        }
    }
}
