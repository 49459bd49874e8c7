//! Panels that are multiplied slice by slice.
//!
//! A panel of a deep product is larger than the nearest cache, and each tile would read it from the second one. So it is copied and multiplied a few of its rows at a time, which stay in the nearest cache while all
//! tiles are multiplied by them, and what the sums have come to is kept in between. The sums run over the same terms in the same order, and nothing is rounded that would not be anyway: to the bit it is the same.
//!
//! What a slice is copied from mostly lies in a cache that is far away, in lines that the processor cannot foresee, as they are rows apart. So the tiles of a slice ask for those of the next one. Without that, a sixth of the
//! time of a product with a few hundred rows goes by while slices are copied.

use super::Multiply;
use super::kernels::Kernels;
use super::pack::{pack, with_own_room};
use super::run::{Product, even, pieces};
use super::tile::{Ahead, LINES, Raw, STEPS, Slice, Tile};

/// A slice takes about so many bytes: two thirds of the nearest cache, the rest of which is left to rows and sums.
const BYTES: usize = 1 << 15;

/// So many rows of a panel are a slice, at most.
pub(super) fn longest<A: Multiply>(kernels: &Kernels<A>) -> usize {
    BYTES / (kernels.wide() * size_of::<A>())
}

/// Multiplies by a panel of the full width; the parts of the sums are added one after the other.
///
/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. The columns of `c` lie one after the other, and unless `beta` is 0, so do those of what is old.
pub(super) unsafe fn multiply_slices<A: Multiply>(
    kernels: &Kernels<A>,
    product: &Product<A>,
    parts: impl Iterator<Item = (usize, usize)>,
) {
    let slice = longest(kernels) * kernels.wide();
    with_own_room(slice + product.rows * kernels.wide(), |room: *mut A| {
        // SAFETY: as the caller says; there is room for a slice, and for as many sums as there are results
        unsafe { multiply_in(room, room.wrapping_add(slice), kernels, product, parts) }
    });
}

/// The same, with room for the copy of a slice, and for sums.
///
/// # Safety
/// That of [`multiply_slices`], and all of the room can be written.
#[inline(always)]
unsafe fn multiply_in<A: Multiply>(
    room: *mut A,
    kept: *mut A,
    kernels: &Kernels<A>,
    product: &Product<A>,
    parts: impl Iterator<Item = (usize, usize)>,
) {
    let &Product { rows, columns: width, alpha, a, b, c, finish, depth: all, .. } = product;
    let (mut beta, mut old) = (product.beta, product.old);
    let (high, longest) = (kernels.high(), longest(kernels));
    let kept = Raw { start: kept, row: width as isize, column: 1 };
    for (from, len) in parts {
        let each = len.div_ceil(len.div_ceil(longest)).next_multiple_of(STEPS * LINES);
        for (first, depth) in pieces(len, each) {
            let at = from + first;
            // SAFETY: as the caller says, for this slice
            unsafe { pack(kernels, b.at(at, 0).transposed(), width, width, depth, room) };
            // the next one, or, as whoever is through with a panel mostly goes on to its right, the first one there
            let next = if at + depth < all { b.at(at + depth, 0) } else { b.at(0, width) };
            let mut asked = 0;
            for (row, rows) in even(rows, high) {
                let (a, old, c, kept) = (a.at(row, at), old.at(row, 0), c.at(row, 0), kept.at(row, 0));
                let sums = (first > 0).then_some(kept.to_read());
                let ahead = Ahead::of_panel(next, width, depth, asked);
                asked += depth / (STEPS * LINES);
                let (b, b_row, last) = (room.cast_const(), width as isize, kernels.lanes);
                let is_last = first + depth == len;
                // what is kept is written as it is
                let (alpha, beta, to) = if is_last { (alpha, beta, c) } else { (A::one(), A::zero(), kept) };
                let (old, old_row, c, c_row) = (old.start, old.row, to.start, to.row);
                let tile = Tile { depth, a, b, b_row, last, old, old_row, c, c_row, alpha, beta };
                // SAFETY: it is a tile of this size, and its sums are so many; the slice has been copied
                unsafe {
                    (kernels.slices[rows - 1])(&tile, &Slice { sums, ahead });
                    if is_last && from + len == all {
                        finish.apply(rows, width, to);
                    }
                }
            }
        }
        (beta, old) = (A::one(), c.to_read());
    }
}
