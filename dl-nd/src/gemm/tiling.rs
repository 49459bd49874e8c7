//! How a product is divided into tiles.

use super::dispatch::KernelTable;
use super::epilogue::Epilogue;
use super::k_slices::{self, multiply_slices};
use super::microkernel::{RawMatrix, Tile};
use super::nanoseconds;
use super::pack::{Scratch, pack};
use crate::tensor::Element;
use dl_core::parallel;
use std::mem::MaybeUninit;

/// Sums run over so many terms, or a few less, before they are added to the result. This, and not
/// the size of a cache, decides how the result is rounded.
pub(super) const K_BLOCK: usize = 512;

/// `c = alpha · a · b + beta · addend`, of these sizes, and what is done with its elements then.
#[derive(Clone, Copy)]
pub(super) struct Gemm<A> {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) alpha: A,
    pub(super) a: RawMatrix<*const A>,
    pub(super) b: RawMatrix<*const A>,
    pub(super) beta: A,
    /// `c`, or what is elsewhere; with a `beta` of 0 it does not count.
    pub(super) addend: RawMatrix<*const A>,
    pub(super) c: RawMatrix<*mut A>,
    pub(super) epilogue: Epilogue,
}

/// A range is divided into so few parts that none is larger than `most`; their lengths differ by 1
/// at most.
#[inline(always)]
pub(super) fn even_parts(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let parts = parts_of(len, most);
    let (each, larger) = lengths(len, parts);
    (0..parts).map(move |part| (part * each + part.min(larger), each + usize::from(part < larger)))
}

/// A range in pieces of this length, of which the last one may be shorter: where each begins, and
/// its length.
#[inline(always)]
pub(super) fn chunks(len: usize, each: usize) -> impl Iterator<Item = (usize, usize)> {
    debug_assert!(each > 0, "pieces have a length");
    let mut next = 0;
    std::iter::from_fn(move || {
        let from = next;
        next += each;
        (from < len).then(|| (from, each.min(len - from)))
    })
}

/// Into how many parts [`even_parts`] divides a range.
#[inline(always)]
fn parts_of(len: usize, most: usize) -> usize {
    if len <= most { len.min(1) } else { len.div_ceil(most) }
}

/// How long so many parts of a range are, and how many of them, the first ones, are longer by 1.
/// Mostly it is one part, which takes no division.
#[inline(always)]
fn lengths(len: usize, parts: usize) -> (usize, usize) {
    if parts <= 1 { (len, 0) } else { (len / parts, len % parts) }
}

/// Some parts of the sums at a time, side by side: where they begin, how long they are together,
/// and how many they are.
#[inline(always)]
fn k_block_groups(depth: usize, together: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let parts = depth.div_ceil(K_BLOCK);
    let (each, larger) = lengths(depth, parts);
    let start = move |part: usize| part * each + part.min(larger);
    let mut next = 0;
    std::iter::from_fn(move || {
        let first = next;
        next = parts.min(first + together);
        (first < parts).then(|| (start(first), start(next) - start(first), next - first))
    })
}

/// Columns of `b`, as many as a tile has at most, and those of `c`.
#[derive(Clone, Copy)]
pub(super) struct Panel<A> {
    pub(super) depth: usize,
    /// Into so many parts the sums are divided: as [`even_parts`] divides them.
    pub(super) parts: usize,
    pub(super) width: usize,
    /// Its columns lie one after the other.
    pub(super) b: RawMatrix<*const A>,
    pub(super) addend: RawMatrix<*const A>,
    pub(super) c: RawMatrix<*mut A>,
    pub(super) alpha: A,
    pub(super) beta: A,
    /// What is done with a tile when its last part has been added.
    pub(super) epilogue: Epilogue,
}

/// As many numbers as the largest tile has.
const MAX_TILE_LEN: usize = 6 * 64;

impl<A: Element> Panel<A> {
    /// Multiplies so many rows, from this one on, by such rows of `a`, tile by tile.
    ///
    /// # Safety
    /// All that belongs to the panel, these rows of `c`, and as many of `a`, from its start on, can
    /// be read, or written, and nobody else has that part of `c`.
    #[inline(always)]
    pub(super) unsafe fn multiply(
        &self,
        kernels: &KernelTable<A>,
        (first, rows): (usize, usize),
        a: RawMatrix<*const A>,
    ) {
        let Panel { depth, parts, width, b: RawMatrix { start: b, row: b_row, .. }, addend, c, alpha, beta, epilogue } =
            *self;
        let wide = kernels.registers(width);
        let last = width - (wide - 1) * kernels.lanes;
        let tiles = kernels.tiles[usize::from(last == kernels.lanes)][wide - 1];
        let (each, larger) = lengths(depth, parts);
        let in_rows = c.column == 1 && (addend.column == 1 || beta == A::zero());
        // else the next part is added to a tile, or it is scattered, before the next one begins
        let at_once = match epilogue {
            _ if !in_rows || parts > 1 => 1,
            Epilogue::None => usize::MAX,
            // it finds them in the first cache
            _ => STRIP_TILES,
        };
        for (row, rows, count) in tiles_of(rows, tiles.len(), at_once) {
            let (run, c) = (tiles[rows - 1], c.at(first + row, 0));
            let (mut a, mut b, mut beta, mut addend) = (a.at(row, 0), b, beta, addend.at(first + row, 0));
            for part in 0..parts {
                let depth = each + usize::from(part < larger);
                let (addend_row, c_row) = (addend.row, c.row);
                let tile =
                    Tile { depth, a, b, b_row, last, addend: addend.start, addend_row, c: c.start, c_row, alpha, beta };
                // SAFETY: they are tiles of this size; the parts are together as long as the sums,
                // so all of them are within the panel and the rows. For sums of their own there is
                // room for one tile
                unsafe {
                    if in_rows {
                        run(&tile, count);
                    } else {
                        let mut sums = [const { MaybeUninit::<A>::uninit() }; MAX_TILE_LEN];
                        let (sums, row) = (sums.as_mut_ptr().cast::<A>(), width as isize);
                        run(&Tile { c: sums, c_row: row, beta: A::zero(), ..tile }, 1);
                        scatter(kernels, RawMatrix { start: sums, row, column: 1 }, rows, width, (beta, addend), c);
                    }
                }
                (a, b) = (a.at(0, depth), b.wrapping_offset(depth as isize * b_row));
                (beta, addend) = (A::of(1.0), c.as_const());
            }
            // SAFETY: as the caller says
            unsafe { epilogue.apply(count * rows, width, c) };
        }
    }
}

/// The tiles into which [`even_parts`] divides rows, of one height together, but no more than `most`:
/// where they begin, how high each is, and how many they are.
#[inline(always)]
fn tiles_of(rows: usize, high: usize, most: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let tiles = parts_of(rows, high);
    let (each, larger) = lengths(rows, tiles);
    let mut next = 0;
    std::iter::from_fn(move || {
        let first = next;
        let alike = if first < larger { larger } else { tiles };
        next = alike.min(first.saturating_add(most));
        (first < tiles).then(|| (first * each + first.min(larger), each + usize::from(first < larger), next - first))
    })
}

/// Adds a tile to `beta · addend`, where the columns of that, or of `c`, do not lie one after the
/// other.
///
/// # Safety
/// All of the tile can be read, and `c` can be written; with a `beta` other than 0 what is old can
/// be read.
unsafe fn scatter<A: Element>(
    kernels: &KernelTable<A>,
    tile: RawMatrix<*const A>,
    rows: usize,
    columns: usize,
    (beta, addend): (A, RawMatrix<*const A>),
    c: RawMatrix<*mut A>,
) {
    if c.row == 1 && beta == A::zero() {
        // SAFETY: as the caller says
        return unsafe { (kernels.copy_columns)(tile, rows, columns, c.start, c.column) };
    }
    for column in 0..columns {
        for row in 0..rows {
            // SAFETY: as the caller says
            unsafe {
                let (sum, addend, to) =
                    (*tile.at(row, column).start, addend.at(row, column).start, c.at(row, column).start);
                to.write(if beta == A::zero() { sum } else { beta * *addend + sum });
            }
        }
    }
}

/// The rows of so many tiles are a strip. Those of a copy of `a` lie side by side: of each column,
/// a few lines of the cache.
const STRIP_TILES: usize = 8;

/// How many rows a strip has, but for the last one.
#[inline(always)]
fn rows_of_strip<A>(kernels: &KernelTable<A>) -> usize {
    STRIP_TILES * kernels.tile_rows()
}

/// A thread shares the strips of what it multiplies between two copies with threads that have no
/// piece left, if that takes so many nanoseconds. Else these wait for all of its piece, which takes
/// long where a processor computes for somebody else, too. In tests of this crate it is less, so
/// that products of any kind are shared.
const MIN_SHARED_NANOSECONDS: f64 = if cfg!(test) { 20_000.0 } else { 100_000.0 };

/// Whether so many rows, and the columns of as many panels as are copied at once, are shared.
#[inline(always)]
pub(super) fn is_shared<A: Element>(kernels: &KernelTable<A>, rows: usize, depth: usize, width: usize) -> bool {
    // a strip alone has no time for more than the first question
    rows > rows_of_strip(kernels) && nanoseconds::<A>(rows, depth, width) >= MIN_SHARED_NANOSECONDS
}

/// Copies of panels that take so many bytes together stay in the second cache.
const PANEL_GROUP_BYTES: usize = 1 << 19;

/// With fewer rows, a slice is not worth it: most of the time it is copied.
const MIN_SLICED_ROWS: usize = 96;
/// If the rows take more, they do not stay in the second cache until the next slice or panel.
const MAX_SLICED_A_BYTES: usize = 1 << 19;

/// What is copied before it is multiplied.
#[derive(Clone, Copy)]
pub(super) struct Packing {
    pub(super) a: bool,
    pub(super) b: bool,
}

impl Packing {
    /// So many rows are multiplied by all panels of a part before others begin.
    pub(super) fn rows(self) -> usize {
        match self {
            // for each block `b` is copied anew, which costs more than to fetch the rows from the
            // third cache
            Packing { a: false, b: true } => 2048,
            // the rows stay in the second cache
            _ => 384,
        }
    }

    /// So many rows are worth a piece for a thread, which may make a copy of the columns.
    pub(super) fn least_rows(self) -> usize {
        if self.b { 96 } else { 48 }
    }

    /// So many panels of this size are copied before the first is multiplied. Then the rows go
    /// strip by strip through all of them: the pages of a strip, and of its part of the result, are
    /// looked up once for all these panels.
    pub(super) fn panels(self, bytes: usize) -> usize {
        match self {
            Packing { a: false, b: true } => (PANEL_GROUP_BYTES / bytes).max(1),
            // the rows lie together in their copy, or no panel is copied
            _ => 1,
        }
    }

    /// Whether panels are copied and multiplied [slice by slice](super::slices). Then each part of
    /// the sums is a product of its own, as so few rows and terms are not added tile by tile.
    pub(super) fn is_k_sliced<A: Element>(self, kernels: &KernelTable<A>, product: &Gemm<A>) -> bool {
        let &Gemm { rows, depth, beta, addend, c, .. } = product;
        let is_deep =
            !kernels.slices.is_empty() && depth.div_ceil(depth.div_ceil(K_BLOCK)) > k_slices::longest(kernels);
        let in_rows = c.column == 1 && (addend.column == 1 || beta == A::zero());
        let rows_stay = rows * depth * size_of::<A>() <= MAX_SLICED_A_BYTES;
        !self.a && self.b && is_deep && in_rows && rows >= MIN_SLICED_ROWS && rows_stay
    }

    /// So many parts of the sums are computed tile by tile, and not one after the other: a tile is
    /// still in the first cache when the next part is added to it.
    fn together(self, rows: usize) -> usize {
        match self {
            // the others are in the caches at any rate
            Packing { a: false, b: true } if rows >= 256 => 4,
            _ => 1,
        }
    }
}

/// Block by block, and panel by panel. Of what is copied, a block of `a` and a panel of `b`, or
/// several, of one part of the sums or a few, at a time. Whoever has nothing to do helps with the
/// strips of a long one.
///
/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. If `b` is not
/// copied, its columns lie one after the other.
pub(super) unsafe fn multiply_blocks<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>, packing: Packing) {
    let Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue } = *product;
    let wide = kernels.tile_columns_for(rows);
    let (block, together) = (packing.rows(), packing.together(rows));
    let deepest = depth.min(together * K_BLOCK);
    let is_k_sliced = packing.is_k_sliced(kernels, product);
    let several = if is_k_sliced { wide } else { wide * packing.panels(deepest * wide * size_of::<A>()) };
    let room_of = |copied: bool, len: usize| if copied { deepest * len } else { 0 };
    let mut room_of_a = Scratch::<A>::take(room_of(packing.a, rows.min(block)));
    let is_copied = packing.b && !(is_k_sliced && columns.is_multiple_of(wide));
    let mut room_of_b = Scratch::<A>::take(room_of(is_copied, several.min(kernels.padded(columns))));
    for (row, rows) in even_parts(rows, block) {
        let all = depth;
        for (from, depth, parts) in k_block_groups(depth, together) {
            let epilogue = if from + depth == all { epilogue } else { Epilogue::None };
            let (beta, addend) = if from == 0 { (beta, addend) } else { (A::of(1.0), c.as_const()) };
            let a = a.at(row, from);
            let packed = room_of_a.as_mut_slice().as_mut_ptr();
            if packing.a {
                for (strip, rows) in chunks(rows, rows_of_strip(kernels)) {
                    // SAFETY: there is room for so many rows
                    unsafe { pack(kernels, a.at(strip, 0), rows, rows, depth, packed.wrapping_add(strip * depth)) };
                }
            }
            for (first, width) in chunks(columns, several) {
                let (b, addend, c) = (b.at(from, first), addend.at(row, first), c.at(row, first));
                if is_k_sliced && width == wide {
                    let product = Gemm { rows, depth, columns: width, alpha, a, b, beta, addend, c, epilogue };
                    // SAFETY: as the caller says, for this panel
                    unsafe { multiply_slices(kernels, &product) };
                    continue;
                }
                let room = room_of_b.as_mut_slice().as_mut_ptr();
                if packing.b {
                    for (panel, width) in chunks(width, wide) {
                        let (b, padded) = (b.at(0, panel).transposed(), kernels.padded(width));
                        // SAFETY: as the caller says, for this part of the product; there is room
                        // for so many panels
                        unsafe { pack(kernels, b, width, padded, depth, room.wrapping_add(panel * depth)) };
                    }
                }
                let a = if packing.a { RawMatrix { start: packed.cast_const(), row: 1, column: 1 } } else { a };
                let b = if packing.b { RawMatrix { start: room.cast_const(), row: 1, column: 1 } } else { b };
                let panels = Panel { depth, parts, width, b, addend, c, alpha, beta, epilogue };
                let strips = RowStrips { kernels, packing, rows, wide, panels, a };
                // SAFETY: as the caller says, for this part of the product, or it has been copied
                unsafe {
                    if is_shared(kernels, rows, depth, width) {
                        strips.share();
                    } else {
                        strips.multiply_all();
                    }
                }
            }
        }
    }
}

/// Rows that are multiplied by some panels: strip by strip by all of them, or at once by the only
/// one.
#[derive(Clone, Copy)]
struct RowStrips<'a, A: 'static> {
    kernels: &'a KernelTable<A>,
    packing: Packing,
    rows: usize,
    /// A panel has so many columns, but for the last one.
    wide: usize,
    /// All of them, as if they were one. Their copies lie one after the other.
    panels: Panel<A>,
    /// Copies of strips lie one after the other, too.
    a: RawMatrix<*const A>,
}

impl<A: Element> RowStrips<'_, A> {
    /// # Safety
    /// All that belongs to them can be read, or written, and nobody else has that part of `c`.
    #[inline(always)]
    unsafe fn multiply_all(&self) {
        let in_strips = self.packing.a || self.panels.width > self.wide;
        for strip in chunks(self.rows, if in_strips { rows_of_strip(self.kernels) } else { self.rows }) {
            // SAFETY: as the caller says
            unsafe { self.multiply(strip) };
        }
    }

    /// The same, with whoever has nothing else to do. Takes a copy of its own, since others read it
    /// from memory: what the usual way has in registers stays there.
    ///
    /// # Safety
    /// The same.
    #[cold]
    unsafe fn share(self) {
        let (Panel { depth, width, .. }, most) = (self.panels, rows_of_strip(self.kernels));
        parallel::for_each(self.rows.div_ceil(most), nanoseconds::<A>(most, depth, width), |nth| {
            let strip = nth * most;
            // SAFETY: as the caller says. Each strip has rows of its own in `c`, and what all of
            // them read stays as it is until the last one is done
            unsafe { self.multiply((strip, most.min(self.rows - strip))) };
        });
    }

    /// Multiplies so many rows, from this one on.
    ///
    /// # Safety
    /// All that belongs to them can be read, or written, and nobody else has these rows of `c`.
    #[inline(always)]
    unsafe fn multiply(&self, (strip, rows): (usize, usize)) {
        let RowStrips { kernels, packing, wide, panels, a, .. } = *self;
        let a = match packing.a {
            true => RawMatrix { start: a.at(0, strip * panels.depth).start, row: 1, column: rows as isize },
            false => a.at(strip, 0),
        };
        for (panel, width) in chunks(panels.width, wide) {
            let b = match packing.b {
                true => RawMatrix { row: kernels.padded(width) as isize, ..panels.b.at(0, panel * panels.depth) },
                false => panels.b.at(0, panel),
            };
            let (addend, c) = (panels.addend.at(0, panel), panels.c.at(0, panel));
            // SAFETY: as the caller says
            unsafe { Panel { width, b, addend, c, ..panels }.multiply(kernels, (strip, rows), a) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_taken_together() {
        for (rows, high, most) in
            (0..50).flat_map(|rows| (1..9).flat_map(move |high| [1, 3, 50, usize::MAX].map(|most| (rows, high, most))))
        {
            let k_block_groups: Vec<_> = tiles_of(rows, high, most).collect();
            let one_by_one = k_block_groups
                .iter()
                .flat_map(|&(row, high, count)| (0..count).map(move |tile| (row + tile * high, high)));
            assert!(one_by_one.eq(even_parts(rows, high)));
            assert!(k_block_groups.iter().all(|&(.., count)| (1..=most).contains(&count)));
            let heights = if rows % parts_of(rows, high).max(1) == 0 { 1 } else { 2 };
            assert!(most < 50 || k_block_groups.len() == heights.min(rows));
        }
    }
}
