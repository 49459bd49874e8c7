//! How a product is divided into tiles.

use super::Multiply;
use super::kernels::Kernels;
use super::pack::{Room, pack};
use super::tile::{Raw, Tile};
use std::mem::MaybeUninit;

/// Sums run over so many terms before they are added to the result. This, and not the size of a cache, decides how the result is rounded.
pub(super) const DEPTH: usize = 128;

/// `c = alpha · a · b + beta · c`, of these sizes.
#[derive(Clone, Copy)]
pub(super) struct Product<A> {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) alpha: A,
    pub(super) a: Raw<*const A>,
    pub(super) b: Raw<*const A>,
    pub(super) beta: A,
    pub(super) c: Raw<*mut A>,
}

/// A range is divided into so few parts that none is larger than `most`; their lengths differ by 1 at most.
#[inline(always)]
pub(super) fn even(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let parts = len.div_ceil(most);
    let (each, larger) = (len / parts.max(1), len % parts.max(1));
    (0..parts).map(move |part| (part * each + part.min(larger), each + usize::from(part < larger)))
}

/// A range in pieces of this length, of which the last one may be shorter: where each begins, and its length.
pub(super) fn pieces(len: usize, each: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..len).step_by(each).map(move |from| (from, each.min(len - from)))
}

/// Columns of `b`, as many as a tile has at most, and those of `c`.
struct Panel<A> {
    depth: usize,
    width: usize,
    /// Its columns lie one after the other.
    b: *const A,
    b_row: isize,
    c: Raw<*mut A>,
    alpha: A,
    beta: A,
}

/// As many numbers as the largest tile has.
const LARGEST: usize = 6 * 64;

impl<A: Multiply> Panel<A> {
    /// Multiplies so many rows of `a`, tile by tile.
    ///
    /// # Safety
    /// All that belongs to the panel, and these rows, can be read, or written, and nobody else has that part of `c`.
    unsafe fn multiply(&self, kernels: &Kernels<A>, rows: usize, a: Raw<*const A>) {
        let Panel { depth, width, b, b_row, c, alpha, beta } = *self;
        let wide = width.div_ceil(kernels.lanes);
        let last = width - (wide - 1) * kernels.lanes;
        let is_whole = last == kernels.lanes && wide == kernels.tiles.len();
        let tiles = if is_whole { kernels.whole } else { kernels.tiles[wide - 1] };
        for (row, rows) in even(rows, tiles.len()) {
            let (run, a, c) = (tiles[rows - 1], a.at(row, 0), c.at(row, 0));
            let tile = Tile { depth, a, b, b_row, last, c: c.start, c_row: c.row, alpha, beta };
            // SAFETY: it is part of the panel, and a tile of this size
            unsafe {
                if c.column == 1 {
                    run(&tile);
                } else {
                    let mut sums = [const { MaybeUninit::<A>::uninit() }; LARGEST];
                    let (sums, row) = (sums.as_mut_ptr().cast::<A>(), width as isize);
                    run(&Tile { c: sums, c_row: row, beta: A::zero(), ..tile });
                    scatter(kernels, Raw { start: sums, row, column: 1 }, rows, width, c, beta);
                }
            }
        }
    }
}

/// Adds a tile to `beta · c`, whose columns do not lie one after the other.
///
/// # Safety
/// All of the tile can be read, and `c` can be written; with a `beta` other than 0 it can be read.
unsafe fn scatter<A: Multiply>(
    kernels: &Kernels<A>,
    tile: Raw<*const A>,
    rows: usize,
    columns: usize,
    c: Raw<*mut A>,
    beta: A,
) {
    if c.row == 1 && beta == A::zero() {
        // SAFETY: as the caller says
        return unsafe { (kernels.copy_columns)(tile, rows, columns, c.start, c.column) };
    }
    for column in 0..columns {
        for row in 0..rows {
            // SAFETY: as the caller says
            unsafe {
                let (sum, to) = (*tile.at(row, column).start, c.at(row, column).start);
                to.write(if beta == A::zero() { sum } else { beta * *to + sum });
            }
        }
    }
}

/// Sums over so many rows and columns of the result run before others begin: with their operands they stay in the second cache.
pub(super) const ROWS: usize = 384;
pub(super) const COLUMNS: usize = 256;

/// Block by block, and panel by panel, with `a` where it is. With `copy`, or if its columns do not lie one after the other, `b` is copied, a panel at a time.
///
/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`.
pub(super) unsafe fn multiply_blocks<A: Multiply>(kernels: &Kernels<A>, product: &Product<A>, copy: bool) {
    let Product { rows, depth, columns, alpha, a, b, beta, c } = *product;
    let copy = copy || b.column != 1;
    let wide = kernels.tile().1;
    let mut room = Room::take(if copy { depth.min(DEPTH) * wide } else { 0 });
    for ((row, rows), (first, columns)) in
        even(rows, ROWS).flat_map(|rows| pieces(columns, COLUMNS).map(move |columns| (rows, columns)))
    {
        for (from, depth) in pieces(depth, DEPTH) {
            let beta = if from == 0 { beta } else { A::one() };
            for (column, width) in pieces(columns, wide) {
                let (b, c) = (b.at(from, first + column), c.at(row, first + column));
                let mut panel = Panel { depth, width, b: b.start, b_row: b.row, c, alpha, beta };
                // SAFETY: as the caller says, for this part of the product; there is room for a panel
                unsafe {
                    if copy {
                        let padded = width.next_multiple_of(kernels.lanes);
                        pack(kernels, b.transposed(), width, padded, depth, room.start());
                        (panel.b, panel.b_row) = (room.start(), padded as isize);
                    }
                    panel.multiply(kernels, rows, a.at(row, from));
                }
            }
        }
    }
}
