//! How a product is divided among threads.

use super::dispatch::KernelTable;
use super::epilogue::Epilogue;
use super::microkernel::RawMatrix;
use super::nanoseconds;
use super::pack::{Scratch, pack_panels};
use super::tiling::{Gemm, K_BLOCK, Packing, chunks, even_parts, multiply_blocks};
use crate::tensor::Element;
use crate::tensor::aligned::CACHE_LINE_BYTES;
use dl_core::parallel;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. What is old is
/// `c`, or elsewhere. With a `beta` of 0 it is not read; where it is not `c`, `c` is not read
/// before it was written.
pub(super) unsafe fn multiply<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) {
    let &Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue } = product;
    if rows == 0 || columns == 0 {
        return;
    }
    if depth == 0 {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let (addend, to) = (addend.at(row, column).start, c.at(row, column).start);
            // SAFETY: as the caller says
            unsafe { to.write(if beta == A::zero() { A::zero() } else { beta * *addend }) };
        }
        // SAFETY: as the caller says
        return unsafe { epilogue.apply(rows, columns, c) };
    }
    if depth > 1 && a.column == 1 && b.row == 1 && (rows == 1 || columns == 1) {
        let of_rows = |rows, a: RawMatrix<*const A>, vector, addend: RawMatrix<*const A>, c: RawMatrix<*mut A>| {
            let dot = |row: usize| {
                // SAFETY: both are of length `depth`, and each row has its place in `c`
                unsafe {
                    let (addend, to) = (addend.at(row, 0).start, c.at(row, 0).start);
                    let sum = alpha * (kernels.dot)(a.at(row, 0).start, vector, depth);
                    to.write(if beta == A::zero() { sum } else { beta * *addend + sum });
                }
            };
            (0..rows).for_each(dot);
        };
        if columns == 1 {
            of_rows(rows, a, b.start, addend, c);
        } else {
            of_rows(columns, b.transposed(), a.start, addend.transposed(), c.transposed());
        }
        // SAFETY: as the caller says
        return unsafe { epilogue.apply(rows, columns, c) };
    }
    // SAFETY: as the caller says
    unsafe {
        if is_better_transposed(kernels, product) {
            let (a, b, addend, c) = (b.transposed(), a.transposed(), addend.transposed(), c.transposed());
            multiply_tiles(kernels, &Gemm { rows: columns, columns: rows, a, b, addend, c, ..*product });
        } else {
            multiply_tiles(kernels, product);
        }
    }
}

/// Whether `cᵀ = bᵀ · aᵀ` is less work: the lanes of a register are columns, which should be many,
/// and lie one after the other in `b` and `c`.
pub(super) fn is_better_transposed<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) -> bool {
    let &Gemm { rows, depth, columns, a, b, c, .. } = product;
    // in cycles
    let work = |rows: usize, columns: usize, packing: bool, scatters: bool| {
        let wide = kernels.registers(columns);
        let multiply = rows * wide * depth / 2;
        // the sums of a tile of one register are too few to keep the processor busy
        let multiply = if wide == 1 { multiply * 4 / 3 } else { multiply };
        let copy = if packing { depth * columns / 2 } else { 0 };
        let scatter = if scatters { 3 * rows * columns } else { 0 };
        multiply + copy + scatter
    };
    work(columns, rows, a.row != 1, c.row != 1) < work(rows, columns, b.column != 1, c.column != 1)
}

/// Whether a panel of so many bytes a row, which is read for so many rows of the result, is better
/// read from a copy, although its columns lie one after the other: where each row is in another
/// page, they get into each other's way in the caches, and to find the pages takes longer than to
/// read a narrow panel. If a row is a line, a quarter of a page between rows is enough: nothing
/// foresees the next one, and the line that a processor fetches beside the one that is read belongs
/// to another panel.
pub(super) fn is_scattered(bytes: usize, rows: usize, row_bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let apart = if bytes == CACHE_LINE_BYTES { PAGE / 4 } else { PAGE };
    row_bytes >= apart && rows >= bytes
}

/// Whether a panel that is read for so many rows of the result is better read from a copy because
/// its rows do not begin where lines of the cache do: where a register is as wide as a line, each
/// is in two of them.
pub(super) fn is_split(place: usize, row_bytes: usize, register_bytes: usize, rows: usize) -> bool {
    // the copy costs as much as these
    const ROWS: usize = 96;
    rows >= ROWS && register_bytes == CACHE_LINE_BYTES && !(place | row_bytes).is_multiple_of(CACHE_LINE_BYTES)
}

/// Whether a panel that is read for so many rows of a piece is better read from a copy if it comes
/// from far away: because another thread has written half of it, as it has of a weight that takes
/// steps by rows, or because it is copied slice by slice, and lines are asked for ahead. Where rows
/// lie apart, a product fetches their lines a few at a time, and a copy as many at once as the
/// processor can.
pub(super) fn is_far(row_bytes: usize, rows: usize) -> bool {
    const ROWS: usize = 128;
    const APART: usize = 1024;
    rows >= ROWS && row_bytes >= APART
}

/// A `b` of fewer bytes may be in the second cache, once a thread has read it for the first of its
/// rows. From there a tile of wide registers reads its panel as fast as it multiplies, and to copy
/// it, or to multiply it slice by slice, takes longer.
const B_IN_L2_BYTES: usize = 1 << 20;

/// A larger copy of `b` would come from memory.
const MAX_SHARED_COPY_BYTES: usize = 1 << 22;

/// Whether the pieces that divide the rows, which would copy this, have one copy of `b` for all of
/// them: as they are for the step of a weight, for which `a` lies in columns. With several parts of
/// the sums that was not measured.
pub(super) fn is_one_copy(task_packing: Packing, depth: usize, row_bytes: usize) -> bool {
    task_packing.a && task_packing.b && depth <= K_BLOCK && depth * row_bytes <= MAX_SHARED_COPY_BYTES
}

/// Whether so many rows are divided into many pieces, which have one copy of `b`: few rows at a
/// time go through all panels, and stay in the second cache. Else each piece would have some
/// panels, and read all rows from further away. That pays where no panel is multiplied slice by
/// slice.
pub(super) fn is_tall<A: Element>(
    kernels: &KernelTable<A>,
    packing: Packing,
    rows: usize,
    depth: usize,
    row_bytes: usize,
) -> bool {
    const ROWS: usize = 512;
    kernels.slices.is_empty() && !packing.a && packing.b && rows >= ROWS && depth * row_bytes <= MAX_SHARED_COPY_BYTES
}

/// So many of these rows, or a few more, are a piece.
const TALL_TASK_ROWS: usize = 64;

/// What takes less is not worth a second thread.
const MIN_PARALLEL_NANOSECONDS: f64 = 20_000.0;
/// A piece for a thread takes about so many nanoseconds, but there are two at least.
const TASK_NANOSECONDS: f64 = 50_000.0;
/// There are about so many pieces, unless they would take longer than that each. A power of two, so
/// that two or four threads have as many each.
const TARGET_TASKS: usize = 8;
/// In nanoseconds: that many threads have something to do.
const MAX_TASK_NANOSECONDS: f64 = 4_000_000.0;
/// With so few rows, most of what is read is `b`, each number of it once: it is divided, and not
/// read by several threads.
const FEW_ROWS: usize = 32;
/// So many results are added in no time, compared with what it takes to compute them.
const SMALL_RESULT_LEN: usize = 1 << 14;

/// # Safety
/// That of [`multiply`].
unsafe fn multiply_tiles<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) {
    let &Gemm { rows, depth, columns, a, b, addend, c, .. } = product;
    let (high, wide) = (kernels.tile_rows(), kernels.tile_columns_for(rows));
    let bytes = |as_mut_slice: usize| as_mut_slice * size_of::<A>();
    let b_row = bytes(b.row.unsigned_abs());
    let packing = Packing {
        a: a.column != 1 && columns >= 4 * wide && rows * columns * depth >= 1 << 20,
        b: b.column != 1 || is_scattered(bytes(wide), rows, b_row),
    };
    // mostly each piece makes a copy of its own
    let (place, register) = (b.start.addr(), bytes(kernels.lanes));
    let packing_for = |rows, shared| {
        let sliced = || Packing { b: true, ..packing }.is_k_sliced(kernels, &Gemm { rows, ..*product });
        let is_elsewhere = || match kernels.slices {
            [] => shared,
            _ => depth * b_row >= B_IN_L2_BYTES && (shared || sliced()),
        };
        let is_worth_it = is_split(place, b_row, register, rows) || is_far(b_row, rows) && is_elsewhere();
        Packing { b: packing.b || columns >= wide && is_worth_it, ..packing }
    };
    let nanoseconds = nanoseconds::<A>(rows, depth, columns);
    // where nobody is going to help, a division that is not large is left out
    if nanoseconds < MIN_PARALLEL_NANOSECONDS
        || nanoseconds < 2.0 * TASK_NANOSECONDS && !parallel::is_divided(2, nanoseconds / 2.0)
    {
        // SAFETY: as the caller says
        return unsafe { multiply_blocks(kernels, product, packing_for(rows, false)) };
    }
    // whole blocks; if they are too few, smaller ones if each has its copy of `a`, else some panels
    // of columns each, and then some tiles of rows
    let wanted = ((nanoseconds / TASK_NANOSECONDS) as usize)
        .clamp(2, TARGET_TASKS)
        .max((nanoseconds / MAX_TASK_NANOSECONDS) as usize);
    let parts = depth.div_ceil(K_BLOCK);
    if rows <= FEW_ROWS && rows * columns <= SMALL_RESULT_LEN && parts >= wanted {
        // SAFETY: as the caller says
        return unsafe {
            match parallel::is_divided(parts, nanoseconds / parts as f64) {
                true => multiply_parts(kernels, product, packing, nanoseconds),
                false => multiply_blocks(kernels, product, packing),
            }
        };
    }
    let wanted = wanted.next_power_of_two();
    let tall = is_tall(kernels, packing, rows, depth, bytes(columns));
    let smaller = match packing.a {
        true => wanted.min(rows / packing.least_rows()),
        false if tall => (rows / TALL_TASK_ROWS).min(wanted.max((nanoseconds / TASK_NANOSECONDS) as usize)),
        false => 1,
    };
    let blocks = rows.div_ceil(packing_for(rows, false).rows()).max(smaller);
    let panels = columns.div_ceil(wide).div_ceil(wanted.div_ceil(blocks));
    let across: Vec<_> = chunks(columns, panels * wide).collect();
    let tiles = rows.div_ceil(high).div_ceil(blocks.max(wanted.div_ceil(across.len())));
    let down: Vec<_> = even_parts(rows, tiles * high).collect();
    let several = across.len() * down.len();
    let each = nanoseconds / several as f64;
    let shared = parallel::is_divided(several, each);
    let least = down.last().map_or(0, |&(_, rows)| rows);
    let task_packing = packing_for(least, shared);
    // a piece of a few rows would have wider panels
    let one_copy = tall || is_one_copy(task_packing, depth, bytes(columns));
    let share_copy = down.len() > 1 && kernels.tile_columns_for(least) == wide && one_copy;
    let mut room = Scratch::<A>::take(if share_copy { depth * columns.next_multiple_of(wide) } else { 0 });
    let b = if share_copy {
        // SAFETY: as the caller says
        unsafe { pack_panels(kernels, b, depth, columns, wide, room.as_mut_slice()) }
    } else {
        b
    };
    parallel::for_each(several, each, |task| {
        let ((row, rows), (column, columns)) = (down[task % down.len()], across[task / down.len()]);
        let (a, b, addend, c) = (a.at(row, 0), b.at(0, column), addend.at(row, column), c.at(row, column));
        let packing = if share_copy { Packing { b: false, ..task_packing } } else { packing_for(rows, shared) };
        // SAFETY: as the caller says, for this part of the product, or `b` has been copied, and
        // panels begin where they have been copied to
        unsafe { multiply_blocks(kernels, &Gemm { rows, columns, a, b, addend, c, ..*product }, packing) };
    });
}

/// The parts of the sums are computed side by side, and then added in their order: as one thread
/// adds them that computes one after the other.
///
/// So whoever has read some rows of a weight `b` for a few samples is the one to whom the same rows
/// fall when the weight is changed, which is divided by rows.
///
/// # Safety
/// That of [`multiply`].
unsafe fn multiply_parts<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>, packing: Packing, nanoseconds: f64) {
    let &Gemm { rows, depth, columns, a, b, c, beta, epilogue, .. } = product;
    let parts: Vec<(usize, usize)> = even_parts(depth, K_BLOCK).collect();
    let each = rows * columns;
    let mut room = Scratch::<A>::take(each * (parts.len() - 1));
    let others = RawMatrix { start: room.as_mut_slice().as_mut_ptr(), row: columns as isize, column: 1 };
    parallel::for_each(parts.len(), nanoseconds / parts.len() as f64, |part| {
        let (from, depth) = parts[part];
        let (a, b) = (a.at(0, from), b.at(from, 0));
        let (c, beta) = if part == 0 { (c, beta) } else { (others.at((part - 1) * rows, 0), A::zero()) };
        // SAFETY: as the caller says, for this part; each of the others has its own place in the
        // room, and is added to nothing
        unsafe {
            multiply_blocks(kernels, &Gemm { depth, a, b, c, beta, epilogue: Epilogue::None, ..*product }, packing)
        };
    });
    for row in 0..rows {
        for part in 1..parts.len() {
            let (from, to) = (others.at((part - 1) * rows + row, 0).start, c.at(row, 0).start);
            // SAFETY: all of `c` and of the room has been written, and nobody else has them
            unsafe {
                if c.column == 1 {
                    let (from, to) = (from_raw_parts(from, columns), from_raw_parts_mut(to, columns));
                    to.iter_mut().zip(from).for_each(|(to, &from)| *to = *to + from);
                } else {
                    for column in 0..columns {
                        let to = to.offset(column as isize * c.column);
                        to.write(*to + *from.add(column));
                    }
                }
            }
        }
    }
    // SAFETY: as the caller says
    unsafe { epilogue.apply(rows, columns, c) };
}
