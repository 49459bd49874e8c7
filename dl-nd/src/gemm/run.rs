//! How a product is divided into tiles.

use super::Multiply;
use super::lanes::{Lanes, Tiles};
use super::pack::pack;
use super::tile::{Raw, Tile};

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

/// The panels of the columns: where each begins, how many registers wide it is, and how much of the last of them is used.
#[inline(always)]
fn panels<L: Lanes>(columns: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let widest = if L::REGISTERS == 32 { 4 } else { 2 };
    let mut next = 0;
    std::iter::from_fn(move || {
        let left = columns - next;
        if left == 0 {
            return None;
        }
        let wide = left.div_ceil(L::N).min(widest);
        let start = next;
        next = columns.min(start + wide * L::N);
        Some((start, wide, next - start - (wide - 1) * L::N))
    })
}

macro_rules! tiles {
    ($tile:expr, $L:ty, $packed:literal, ($rows:expr, $wide:expr): $($r:literal x $w:literal),*) => {
        match ($rows, $wide) {
            // SAFETY: the caller says so
            $(($r, $w) => unsafe { <$L>::tile::<$r, $w, $packed>(&$tile) },)*
            _ => unreachable!("there are tiles of these sizes only"),
        }
    };
}

/// How many numbers a panel takes that [`direct`] copies.
pub(super) fn room_of_panel(lanes: usize) -> usize {
    DEPTH * 4 * lanes
}

/// Tile by tile, with `a` where it is. With `copy`, or if its columns do not lie one after the other, `b` is copied first, panel by panel.
///
/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. If `b` is copied, [`room_of_panel`] numbers can be written to `room`.
#[inline(always)]
pub(super) unsafe fn direct<L: Tiles<Number = A>, A: Multiply>(product: &Product<A>, room: *mut A, copy: bool) {
    let Product { rows, depth, columns, alpha, a, b, mut beta, c } = *product;
    let mut from = 0;
    while from < depth {
        let part = (depth - from).min(DEPTH);
        for (column, wide, last) in panels::<L>(columns) {
            let width = (wide - 1) * L::N + last;
            let (mut start, mut b_row) = (b.at(from, column).start, b.row);
            if copy || b.column != 1 {
                // SAFETY: a panel has room there
                unsafe { pack(b.at(from, column).transposed(), width, width, part, room) };
                (start, b_row) = (room.cast_const(), width as isize);
            }
            let most = if wide == 1 { 8 } else { 6 };
            for (row, rows) in even(rows, most) {
                let tile =
                    Tile { depth: part, a: a.at(row, from), b: start, b_row, last, c: c.at(row, column), alpha, beta };
                tiles! {
                    tile, L, false, (rows, wide):
                    1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 4, 6 x 4,
                    1 x 3, 2 x 3, 3 x 3, 4 x 3, 5 x 3, 6 x 3,
                    1 x 2, 2 x 2, 3 x 2, 4 x 2, 5 x 2, 6 x 2,
                    1 x 1, 2 x 1, 3 x 1, 4 x 1, 5 x 1, 6 x 1, 7 x 1, 8 x 1
                }
            }
        }
        beta = A::one();
        from += part;
    }
}

/// How many rows and columns a packed tile has.
#[inline(always)]
pub(super) const fn packed_tile<L: Lanes>() -> (usize, usize) {
    (6, if L::REGISTERS == 32 { 4 } else { 2 } * L::N)
}

/// Part of a product whose operands are packed: rows `rows` and columns `columns` of `c`.
pub(super) struct Block<A> {
    pub(super) depth: usize,
    pub(super) a: *const A,
    pub(super) b: *const A,
    pub(super) c: Raw<*mut A>,
    pub(super) rows: (usize, usize),
    pub(super) columns: (usize, usize),
    pub(super) alpha: A,
    pub(super) beta: A,
}

/// # Safety
/// All that belongs to the block can be read, or written, and nobody else has that part of `c`.
#[inline(always)]
pub(super) unsafe fn block<L: Tiles<Number = A>, A: Multiply>(block: &Block<A>) {
    let Block { depth, a, b, c, rows, columns, alpha, beta } = *block;
    let (high, wide) = packed_tile::<L>();
    for (row, height) in even(rows.1, high) {
        let row = rows.0 + row;
        let mut column = columns.0;
        while column < columns.1 {
            let width = (columns.1 - column).min(wide);
            let registers = width.div_ceil(L::N);
            let last = width - (registers - 1) * L::N;
            let tile = Tile {
                depth,
                a: Raw { start: a.wrapping_add(row * depth), row: 1, column: 0 },
                b: b.wrapping_add(column * depth),
                b_row: wide as isize,
                last,
                c: c.at(row, column),
                alpha,
                beta,
            };
            tiles! {
                tile, L, true, (height, registers):
                1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 4, 6 x 4,
                1 x 3, 2 x 3, 3 x 3, 4 x 3, 5 x 3, 6 x 3,
                1 x 2, 2 x 2, 3 x 2, 4 x 2, 5 x 2, 6 x 2,
                1 x 1, 2 x 1, 3 x 1, 4 x 1, 5 x 1, 6 x 1
            }
            column += width;
        }
    }
}
