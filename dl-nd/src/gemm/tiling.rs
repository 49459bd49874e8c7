//! Blocking of a product: k-blocks, panels, strips and tiles.

use super::dispatch::KernelTable;
use super::epilogue::Epilogue;
use super::k_slices::{self, multiply_slices};
use super::microkernel::{NextPanel, RawMatrix, Tile};
use super::nanoseconds;
use super::pack::{Scratch, pack};
use crate::tensor::Element;
use dl_core::parallel;
use std::mem::MaybeUninit;

/// The maximum length of a k-block: the number of terms that are accumulated before the sum is
/// added to the result. It determines the rounding of the result, so it must not depend on the
/// machine.
pub(super) const K_BLOCK: usize = 512;

/// The arguments of `c = alpha · a · b + beta · addend`, and the epilogue.
#[derive(Clone, Copy)]
pub(super) struct Gemm<A> {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) alpha: A,
    pub(super) a: RawMatrix<*const A>,
    pub(super) b: RawMatrix<*const A>,
    pub(super) beta: A,
    /// `c` or another matrix; not read if `beta` is 0.
    pub(super) addend: RawMatrix<*const A>,
    pub(super) c: RawMatrix<*mut A>,
    pub(super) epilogue: Epilogue,
}

/// Divides a range into as few parts as possible of at most `most` elements. Yields their starts
/// and lengths; the lengths differ by at most 1.
#[inline(always)]
pub(super) fn even_parts(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let parts = parts_of(len, most);
    let (each, larger) = lengths(len, parts);
    (0..parts).map(move |part| (part * each + part.min(larger), each + usize::from(part < larger)))
}

/// Divides a range into chunks of `each` elements; the last one may be shorter. Yields their starts
/// and lengths.
#[inline(always)]
pub(super) fn chunks(len: usize, each: usize) -> impl Iterator<Item = (usize, usize)> {
    debug_assert!(each > 0, "chunks are not empty");
    let mut next = 0;
    std::iter::from_fn(move || {
        let from = next;
        next += each;
        (from < len).then(|| (from, each.min(len - from)))
    })
}

/// The number of parts of [`even_parts`].
#[inline(always)]
fn parts_of(len: usize, most: usize) -> usize {
    if len <= most { len.min(1) } else { len.div_ceil(most) }
}

/// The length of the parts of a range, and the number of parts, at the start, that are longer by 1.
/// The common case of one part needs no division.
#[inline(always)]
fn lengths(len: usize, parts: usize) -> (usize, usize) {
    if parts <= 1 { (len, 0) } else { (len / parts, len % parts) }
}

/// Groups of consecutive k-blocks, `together` at a time. Yields their starts, lengths, and numbers
/// of k-blocks.
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

/// A panel: columns of `b`, at most as many as a tile has, and the same columns of `c`.
#[derive(Clone, Copy)]
pub(super) struct Panel<A> {
    pub(super) depth: usize,
    /// The number of k-blocks, divided as by [`even_parts`].
    pub(super) parts: usize,
    pub(super) width: usize,
    /// Its columns must be contiguous.
    pub(super) b: RawMatrix<*const A>,
    pub(super) addend: RawMatrix<*const A>,
    pub(super) c: RawMatrix<*mut A>,
    pub(super) alpha: A,
    pub(super) beta: A,
    /// Applied to a tile after its last k-block.
    pub(super) epilogue: Epilogue,
    pub(super) next: NextPanel,
}

/// The number of elements of the largest tile.
const MAX_TILE_LEN: usize = 6 * 64;

impl<A: Element> Panel<A> {
    /// Multiplies the rows `first..first + rows` by `a`, tile by tile.
    ///
    /// # Safety
    /// The panel, these rows of `c`, and as many rows of `a` must be readable or writable, and that
    /// part of `c` must not be aliased.
    #[inline(always)]
    pub(super) unsafe fn multiply(
        &self,
        kernels: &KernelTable<A>,
        (first, rows): (usize, usize),
        a: RawMatrix<*const A>,
    ) {
        let Panel { depth, parts, width, b, addend, c, alpha, beta, epilogue, mut next } = *self;
        let RawMatrix { start: b, row: b_row, .. } = b;
        let wide = kernels.registers(width);
        let last = width - (wide - 1) * kernels.lanes;
        let tiles = kernels.tiles[usize::from(last == kernels.lanes)][wide - 1];
        let (each, larger) = lengths(depth, parts);
        let in_rows = c.column == 1 && (addend.column == 1 || beta == A::zero());
        // otherwise the next k-block, or the scatter, must follow before the next tile
        let at_once = match epilogue {
            _ if !in_rows || parts > 1 => 1,
            Epilogue::None => usize::MAX,
            // the epilogue finds them in L1
            _ => STRIP_TILES,
        };
        for (row, rows, count) in tiles_of(rows, tiles.len(), at_once) {
            let (run, c) = (tiles[rows - 1], c.at(first + row, 0));
            next.above = (first + row) / tiles.len();
            let (mut a, mut b, mut beta, mut addend) = (a.at(row, 0), b, beta, addend.at(first + row, 0));
            for part in 0..parts {
                let depth = each + usize::from(part < larger);
                let (addend_row, c_row) = (addend.row, c.row);
                let (from, to) = (addend.start, c.start);
                let tile = Tile { depth, a, b, b_row, last, addend: from, addend_row, c: to, c_row, alpha, beta, next };
                // SAFETY: the tiles have this size; the k-blocks together have the length of the
                // inner dimension, so all accesses are within the panel and the rows. The separate
                // sums have room for one tile
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
            // SAFETY: guaranteed by the caller
            unsafe { epilogue.apply(count * rows, width, c) };
        }
    }
}

/// Multiplies panel by panel, with both operands where they are.
///
/// # Safety
/// The operands must be readable, and `c` writable and not aliased except by the addend. The
/// columns of `b` must be contiguous, and there must be one k-block.
pub(super) unsafe fn multiply_in_place<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) {
    let Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue } = *product;
    let wide = kernels.tile_columns_for(rows);
    for (first, width) in chunks(columns, wide) {
        let next = if first + width < columns {
            NextPanel::new(width as isize, rows.div_ceil(kernels.tile_rows()))
        } else {
            NextPanel::NONE
        };
        let (b, addend, c) = (b.at(0, first), addend.at(0, first), c.at(0, first));
        // SAFETY: guaranteed by the caller for this panel
        unsafe {
            Panel { depth, parts: 1, width, b, addend, c, alpha, beta, epilogue, next }.multiply(kernels, (0, rows), a)
        };
    }
}

/// The tiles of [`even_parts`], grouped by height, at most `most` at a time. Yields their first
/// rows, heights and numbers.
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

/// Adds a tile to `beta · addend`, where the columns of the addend or of `c` are not contiguous.
///
/// # Safety
/// The tile must be readable, and `c` writable; with a nonzero `beta` the addend must be readable.
unsafe fn scatter<A: Element>(
    kernels: &KernelTable<A>,
    tile: RawMatrix<*const A>,
    rows: usize,
    columns: usize,
    (beta, addend): (A, RawMatrix<*const A>),
    c: RawMatrix<*mut A>,
) {
    if c.row == 1 && beta == A::zero() {
        // SAFETY: guaranteed by the caller
        return unsafe { (kernels.copy_columns)(tile, rows, columns, c.start, c.column) };
    }
    for column in 0..columns {
        for row in 0..rows {
            // SAFETY: guaranteed by the caller
            unsafe {
                let (sum, addend, to) =
                    (*tile.at(row, column).start, addend.at(row, column).start, c.at(row, column).start);
                to.write(if beta == A::zero() { sum } else { beta * *addend + sum });
            }
        }
    }
}

/// The number of tiles of a strip. In a packed `a`, the rows of a strip are contiguous: a few cache
/// lines per column.
const STRIP_TILES: usize = 8;

/// The number of rows of a strip, except for the last one.
#[inline(always)]
fn rows_of_strip<A>(kernels: &KernelTable<A>) -> usize {
    STRIP_TILES * kernels.tile_rows()
}

/// A task that takes longer than this shares its strips with idle threads. Otherwise these would
/// wait for the whole task, which takes long on a core that is shared with other processes. Shorter
/// in tests, so that they cover shared strips.
const MIN_SHARED_NANOSECONDS: f64 = if cfg!(test) { 20_000.0 } else { 100_000.0 };

/// Whether the strips of this many rows and columns are shared.
#[inline(always)]
pub(super) fn is_shared<A: Element>(kernels: &KernelTable<A>, rows: usize, depth: usize, width: usize) -> bool {
    // the cheap condition first: a single strip is never shared
    rows > rows_of_strip(kernels) && nanoseconds::<A>(rows, depth, width) >= MIN_SHARED_NANOSECONDS
}

/// Packed panels of this total size stay in L2.
const PANEL_GROUP_BYTES: usize = 1 << 19;

/// With fewer rows, k-slicing does not pay: most of the time would be spent packing.
const MIN_SLICED_ROWS: usize = 96;
/// The rows of `a` must fit into L2 until the next slice or panel.
const MAX_SLICED_A_BYTES: usize = 1 << 19;

/// Which operands are packed.
#[derive(Clone, Copy)]
pub(super) struct Packing {
    pub(super) a: bool,
    pub(super) b: bool,
}

impl Packing {
    /// The number of rows that pass all panels of a k-block before the next rows begin.
    pub(super) fn rows(self) -> usize {
        match self {
            // `b` is packed again for each block, which costs more than loading the rows from L3
            Packing { a: false, b: true } => 2048,
            // the rows stay in L2
            _ => 384,
        }
    }

    /// The minimum number of rows of a task, which may pack the columns itself.
    pub(super) fn least_rows(self) -> usize {
        if self.b { 96 } else { 48 }
    }

    /// The number of panels of this size that are packed before the first is multiplied. Strips
    /// then pass through all of these panels, so that the pages of a strip and of its part of the
    /// result are looked up once.
    pub(super) fn panels(self, bytes: usize) -> usize {
        match self {
            Packing { a: false, b: true } => (PANEL_GROUP_BYTES / bytes).max(1),
            // the packed rows are contiguous, or no panel is packed
            _ => 1,
        }
    }

    /// Whether panels are [k-sliced](super::k_slices). Each k-block is then a product of its own,
    /// since there are too few rows and terms to add k-blocks tile by tile.
    pub(super) fn is_k_sliced<A: Element>(self, kernels: &KernelTable<A>, product: &Gemm<A>) -> bool {
        let &Gemm { rows, depth, beta, addend, c, .. } = product;
        let is_deep =
            !kernels.slices.is_empty() && depth.div_ceil(depth.div_ceil(K_BLOCK)) > k_slices::longest(kernels);
        let in_rows = c.column == 1 && (addend.column == 1 || beta == A::zero());
        let rows_stay = rows * depth * size_of::<A>() <= MAX_SLICED_A_BYTES;
        !self.a && self.b && is_deep && in_rows && rows >= MIN_SLICED_ROWS && rows_stay
    }

    /// The number of k-blocks that are computed tile by tile: a tile is still in L1 when the next
    /// k-block is added to it.
    fn together(self, rows: usize) -> usize {
        match self {
            // smaller products are in the caches anyway
            Packing { a: false, b: true } if rows >= 256 => 4,
            _ => 1,
        }
    }
}

/// Multiplies block by block and panel by panel. At most one block of `a` and one group of panels
/// of `b` are packed at a time, for a group of k-blocks. Idle threads help with the strips of a
/// long product.
///
/// # Safety
/// The operands must be readable, and `c` writable and not aliased except by the addend. If `b` is
/// not packed, its columns must be contiguous.
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
                    // SAFETY: the scratch memory has room for these rows
                    unsafe { pack(kernels, a.at(strip, 0), rows, rows, depth, packed.wrapping_add(strip * depth)) };
                }
            }
            for (first, width) in chunks(columns, several) {
                let next = if packing.b || first + width >= columns {
                    NextPanel::NONE
                } else {
                    NextPanel::new(width as isize, rows.div_ceil(kernels.tile_rows()))
                };
                let (b, addend, c) = (b.at(from, first), addend.at(row, first), c.at(row, first));
                if is_k_sliced && width == wide {
                    let product = Gemm { rows, depth, columns: width, alpha, a, b, beta, addend, c, epilogue };
                    // SAFETY: guaranteed by the caller for this panel
                    unsafe { multiply_slices(kernels, &product) };
                    continue;
                }
                let scratch = room_of_b.as_mut_slice().as_mut_ptr();
                if packing.b {
                    for (panel, width) in chunks(width, wide) {
                        let (b, padded) = (b.at(0, panel).transposed(), kernels.padded(width));
                        // SAFETY: guaranteed by the caller for this part of the product; the
                        // scratch memory has room for these panels
                        unsafe { pack(kernels, b, width, padded, depth, scratch.wrapping_add(panel * depth)) };
                    }
                }
                let a = if packing.a { RawMatrix { start: packed.cast_const(), row: 1, column: 1 } } else { a };
                let b = if packing.b { RawMatrix { start: scratch.cast_const(), row: 1, column: 1 } } else { b };
                let panels = Panel { depth, parts, width, b, addend, c, alpha, beta, epilogue, next };
                let strips = RowStrips { kernels, packing, rows, wide, panels, a };
                // SAFETY: guaranteed by the caller for this part of the product, or the operand has
                // been packed
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

/// Rows and some panels. With several panels, each strip of rows is multiplied by all of them
/// before the next.
#[derive(Clone, Copy)]
struct RowStrips<'a, A: 'static> {
    kernels: &'a KernelTable<A>,
    packing: Packing,
    rows: usize,
    /// The number of columns of a panel, except for the last one.
    wide: usize,
    /// All panels as one. Packed panels are consecutive.
    panels: Panel<A>,
    /// Packed strips are consecutive, too.
    a: RawMatrix<*const A>,
}

impl<A: Element> RowStrips<'_, A> {
    /// # Safety
    /// All operands must be readable, and this part of `c` writable and not aliased.
    #[inline(always)]
    unsafe fn multiply_all(&self) {
        let in_strips = self.packing.a || self.panels.width > self.wide;
        for strip in chunks(self.rows, if in_strips { rows_of_strip(self.kernels) } else { self.rows }) {
            // SAFETY: guaranteed by the caller
            unsafe { self.multiply(strip) };
        }
    }

    /// Multiplies all strips together with idle threads. Takes `self` by value: other threads need
    /// it in memory, while the common path keeps its copy in registers.
    ///
    /// # Safety
    /// That of `multiply_all`.
    #[cold]
    unsafe fn share(self) {
        let (Panel { depth, width, .. }, most) = (self.panels, rows_of_strip(self.kernels));
        parallel::for_each(self.rows.div_ceil(most), nanoseconds::<A>(most, depth, width), |nth| {
            let strip = nth * most;
            // SAFETY: guaranteed by the caller. Each strip has its own rows of `c`, and the shared
            // operands are not written until the last strip is done
            unsafe { self.multiply((strip, most.min(self.rows - strip))) };
        });
    }

    /// Multiplies the rows `strip..strip + rows`.
    ///
    /// # Safety
    /// All operands must be readable, and these rows of `c` writable and not aliased.
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
            // SAFETY: guaranteed by the caller
            unsafe { Panel { width, b, addend, c, ..panels }.multiply(kernels, (strip, rows), a) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_grouped_by_height() {
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
