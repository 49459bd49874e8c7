//! How a product is divided into tiles.

use super::Multiply;
use super::kernels::Kernels;
use super::pack::{Room, pack};
use super::tile::{Raw, Tile};
use std::mem::MaybeUninit;

/// Sums run over so many terms, or a few less, before they are added to the result. This, and not the size of a cache, decides how the result is rounded.
pub(super) const DEPTH: usize = 512;

/// `c = alpha · a · b + beta · old`, of these sizes.
#[derive(Clone, Copy)]
pub(super) struct Product<A> {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) alpha: A,
    pub(super) a: Raw<*const A>,
    pub(super) b: Raw<*const A>,
    pub(super) beta: A,
    /// `c`, or what is elsewhere; with a `beta` of 0 it does not count.
    pub(super) old: Raw<*const A>,
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
pub(super) struct Panel<A> {
    pub(super) depth: usize,
    pub(super) width: usize,
    /// Its columns lie one after the other.
    pub(super) b: *const A,
    pub(super) b_row: isize,
    pub(super) old: Raw<*const A>,
    pub(super) c: Raw<*mut A>,
    pub(super) alpha: A,
    pub(super) beta: A,
}

/// As many numbers as the largest tile has.
const LARGEST: usize = 6 * 64;

impl<A: Multiply> Panel<A> {
    /// Multiplies so many rows, tile by tile. `a` says where those of a tile lie, given the first one and their number, which is at most `high`.
    ///
    /// # Safety
    /// All that belongs to the panel, and these rows, can be read, or written, and nobody else has that part of `c`.
    #[inline]
    pub(super) unsafe fn multiply(
        &self,
        kernels: &Kernels<A>,
        rows: usize,
        high: usize,
        a: impl Fn(usize, usize) -> Raw<*const A>,
    ) {
        let Panel { depth, width, b, b_row, old, c, alpha, beta } = *self;
        let wide = width.div_ceil(kernels.lanes);
        let last = width - (wide - 1) * kernels.lanes;
        let tiles = kernels.tiles[usize::from(last == kernels.lanes)][wide - 1];
        for (row, rows) in even(rows, high.min(tiles.len())) {
            let (run, a, old, c) = (tiles[rows - 1], a(row, rows), old.at(row, 0), c.at(row, 0));
            let (old_row, c_row) = (old.row, c.row);
            let tile = Tile { depth, a, b, b_row, last, old: old.start, old_row, c: c.start, c_row, alpha, beta };
            // SAFETY: it is part of the panel, and a tile of this size
            unsafe {
                if c.column == 1 && (old.column == 1 || beta == A::zero()) {
                    run(&tile);
                } else {
                    let mut sums = [const { MaybeUninit::<A>::uninit() }; LARGEST];
                    let (sums, row) = (sums.as_mut_ptr().cast::<A>(), width as isize);
                    run(&Tile { c: sums, c_row: row, beta: A::zero(), ..tile });
                    scatter(kernels, Raw { start: sums, row, column: 1 }, rows, width, (beta, old), c);
                }
            }
        }
    }
}

/// Adds a tile to `beta · old`, where the columns of that, or of `c`, do not lie one after the other.
///
/// # Safety
/// All of the tile can be read, and `c` can be written; with a `beta` other than 0 what is old can be read.
unsafe fn scatter<A: Multiply>(
    kernels: &Kernels<A>,
    tile: Raw<*const A>,
    rows: usize,
    columns: usize,
    (beta, old): (A, Raw<*const A>),
    c: Raw<*mut A>,
) {
    if c.row == 1 && beta == A::zero() {
        // SAFETY: as the caller says
        return unsafe { (kernels.copy_columns)(tile, rows, columns, c.start, c.column) };
    }
    for column in 0..columns {
        for row in 0..rows {
            // SAFETY: as the caller says
            unsafe {
                let (sum, old, to) = (*tile.at(row, column).start, old.at(row, column).start, c.at(row, column).start);
                to.write(if beta == A::zero() { sum } else { beta * *old + sum });
            }
        }
    }
}

/// So many rows are multiplied by all panels of a part before others begin: they stay in the second cache.
pub(super) const ROWS: usize = 384;

/// So many columns of `a` are copied at a time.
const STRIP: usize = 32;

/// What is copied before it is multiplied.
#[derive(Clone, Copy)]
pub(super) struct Copies {
    pub(super) a: bool,
    pub(super) b: bool,
}

/// Block by block, and panel by panel. Of what is copied, a block of `a` and a panel of `b` at a time.
///
/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. If `b` is not copied, its columns lie one after the other.
pub(super) unsafe fn multiply_blocks<A: Multiply>(kernels: &Kernels<A>, product: &Product<A>, copies: Copies) {
    let Product { rows, depth, columns, alpha, a, b, beta, old, c } = *product;
    let (high, wide) = (kernels.high(), kernels.wide());
    let room_of = |copied: bool, len: usize| if copied { depth.min(DEPTH) * len } else { 0 };
    let mut room_of_a = Room::<A>::take(room_of(copies.a, rows.min(ROWS)));
    let mut room_of_b = Room::<A>::take(room_of(copies.b, wide.min(columns.next_multiple_of(kernels.lanes))));
    for (row, rows) in even(rows, ROWS) {
        for (from, depth) in even(depth, DEPTH) {
            let (beta, old) = if from == 0 { (beta, old) } else { (A::one(), c.to_read()) };
            let a = a.at(row, from);
            let packed = room_of_a.numbers().as_mut_ptr();
            if copies.a {
                // tile beside tile, so that what is read of a line of the cache is read while it is there
                for (at, few) in pieces(depth, STRIP) {
                    for (tile, height) in even(rows, high) {
                        let to = packed.wrapping_add(tile * depth + at * height);
                        // SAFETY: there is room for so many rows
                        unsafe { pack(kernels, a.at(tile, at), height, height, few, to) };
                    }
                }
            }
            for (column, width) in pieces(columns, wide) {
                let (b, old, c) = (b.at(from, column), old.at(row, column), c.at(row, column));
                let mut panel = Panel { depth, width, b: b.start, b_row: b.row, old, c, alpha, beta };
                // SAFETY: as the caller says, for this part of the product; there is room for a panel
                unsafe {
                    if copies.b {
                        let padded = width.next_multiple_of(kernels.lanes);
                        let room = room_of_b.numbers().as_mut_ptr();
                        pack(kernels, b.transposed(), width, padded, depth, room);
                        (panel.b, panel.b_row) = (room, padded as isize);
                    }
                    if copies.a {
                        let tile = |row, height: usize| Raw {
                            start: packed.wrapping_add(row * depth).cast_const(),
                            row: 1,
                            column: height as isize,
                        };
                        panel.multiply(kernels, rows, high, tile);
                    } else {
                        panel.multiply(kernels, rows, usize::MAX, |row, _| a.at(row, 0));
                    }
                }
            }
        }
    }
}
