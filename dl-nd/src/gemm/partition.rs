//! Division of a product into tasks for several threads.

use super::dispatch::KernelTable;
use super::epilogue::Epilogue;
use super::gemv;
use super::microkernel::RawMatrix;
use super::nanoseconds;
use super::pack::{Scratch, pack_panels};
use super::tiling::{Gemm, K_BLOCK, Packing, chunks, even_parts, multiply_blocks, multiply_in_place};
use crate::tensor::Element;
use crate::tensor::aligned::CACHE_LINE_BYTES;
use dl_core::parallel;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// # Safety
/// The operands must be readable, and `c` writable and not aliased, except by the addend, which may
/// be `c` itself. With a `beta` of 0 the addend is not read. If the addend is not `c`, then `c` is
/// written before it is read.
pub(super) unsafe fn multiply<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) {
    let &Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue } = product;
    if rows == 0 || columns == 0 {
        return;
    }
    if depth == 0 {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let (addend, to) = (addend.at(row, column).start, c.at(row, column).start);
            // SAFETY: guaranteed by the caller
            unsafe { to.write(if beta == A::zero() { A::zero() } else { beta * *addend }) };
        }
        // SAFETY: guaranteed by the caller
        return unsafe { epilogue.apply(rows, columns, c) };
    }
    if depth > 1 && a.column == 1 && b.row == 1 && (rows == 1 || columns == 1) {
        let of_rows = |rows, a: RawMatrix<*const A>, vector, addend: RawMatrix<*const A>, c: RawMatrix<*mut A>| {
            let put = |row: usize, sum: A| {
                let (sum, addend, to) = (alpha * sum, addend.at(row, 0).start, c.at(row, 0).start);
                // SAFETY: `row` is a row of `c`
                unsafe { to.write(if beta == A::zero() { sum } else { beta * *addend + sum }) };
            };
            let is_plain = alpha == A::of(1.0) && beta == A::zero() && c.row == 1;
            let mut row = 0;
            while row + kernels.lanes <= rows && depth <= LONGEST_INNER {
                let vectors = (a.at(row, 0).start, a.row);
                let mut sums = [A::zero(); gemv::MOST_LANES];
                let to = if is_plain { c.at(row, 0).start } else { sums.as_mut_ptr() };
                // SAFETY: the vector and these rows have length `depth`, and a register fits into
                // `to`
                unsafe { (kernels.dots)(vectors, vector, depth, to) };
                if !is_plain {
                    sums[..kernels.lanes].iter().enumerate().for_each(|(i, &sum)| put(row + i, sum));
                }
                row += kernels.lanes;
            }
            for row in row..rows {
                // SAFETY: both vectors have length `depth`
                put(row, unsafe { inner_product(kernels, a.at(row, 0).start, vector, depth) });
            }
        };
        if columns == 1 {
            of_rows(rows, a, b.start, addend, c);
        } else {
            of_rows(columns, b.transposed(), a.start, addend.transposed(), c.transposed());
        }
        // SAFETY: guaranteed by the caller
        return unsafe { epilogue.apply(rows, columns, c) };
    }
    if is_in_place(kernels, product) {
        // SAFETY: guaranteed by the caller
        return unsafe { multiply_in_place(kernels, product) };
    }
    if depth > LONGEST_SUM {
        // SAFETY: guaranteed by the caller
        return unsafe { multiply_halves(kernels, product) };
    }
    // SAFETY: guaranteed by the caller
    unsafe {
        if is_better_transposed(kernels, product) {
            let (a, b, addend, c) = (b.transposed(), a.transposed(), addend.transposed(), c.transposed());
            multiply_tiles(kernels, &Gemm { rows: columns, columns: rows, a, b, addend, c, ..*product });
        } else {
            multiply_tiles(kernels, product);
        }
    }
}

/// Whether a product is so small that nothing is packed or divided, and its rows and columns are
/// not exchanged. The other ways have the same bits, and deciding among them takes longer.
fn is_in_place<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) -> bool {
    let &Gemm { rows, depth, columns, b, c, .. } = product;
    let bytes = |numbers: usize| numbers * size_of::<A>();
    depth <= K_BLOCK
        && bytes(rows * depth) <= MOST_BYTES_IN_PLACE
        && rows < SPLIT_ROWS
        && columns >= rows.max(kernels.lanes)
        && b.column == 1
        && c.column == 1
        && !is_scattered(bytes(kernels.tile_columns_for(rows)), rows, bytes(b.row.unsigned_abs()))
        && nanoseconds::<A>(rows, depth, columns) < MIN_PARALLEL_NANOSECONDS
}

/// So much of `a` stays in L1 while all panels are multiplied by it.
const MOST_BYTES_IN_PLACE: usize = 1 << 15;

/// An element of a product of more terms is the sum of those of the halves, so that its error grows
/// with the logarithm of their number.
const LONGEST_SUM: usize = 16 * K_BLOCK;
/// The same for the inner product of contiguous vectors, which has many accumulators.
const LONGEST_INNER: usize = 4096;

/// # Safety
/// `len` numbers of both vectors must be readable.
unsafe fn inner_product<A: Element>(kernels: &KernelTable<A>, x: *const A, y: *const A, len: usize) -> A {
    // SAFETY: guaranteed by the caller for both halves
    unsafe {
        if len <= LONGEST_INNER {
            return (kernels.dot)(x, y, len);
        }
        // so that both begin at a register
        let half = (len / 2).next_multiple_of(K_BLOCK);
        inner_product(kernels, x, y, half) + inner_product(kernels, x.add(half), y.add(half), len - half)
    }
}

/// Adds the product of the second half of the terms to that of the first.
///
/// # Safety
/// That of [`multiply`].
unsafe fn multiply_halves<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) {
    let &Gemm { rows, depth, columns, a, b, c, epilogue, .. } = product;
    let half = (depth / 2).next_multiple_of(K_BLOCK);
    let mut scratch = Scratch::<A>::take(rows * columns);
    let sums = RawMatrix { start: scratch.as_mut_slice().as_mut_ptr(), row: columns as isize, column: 1 };
    let first = Gemm { depth: half, epilogue: Epilogue::None, ..*product };
    let (rest, a, b) = (depth - half, a.at(0, half), b.at(half, 0));
    let second = Gemm { depth: rest, a, b, beta: A::zero(), addend: sums.as_const(), c: sums, ..first };
    let compute = |half: usize| {
        // SAFETY: guaranteed by the caller for this half; the second one is written to the scratch
        // memory, which has room for it
        unsafe { multiply(kernels, [&first, &second][half]) };
    };
    match rows * columns <= SMALL_RESULT_LEN {
        true => parallel::for_each(2, nanoseconds::<A>(rows, half, columns), compute),
        // the rows and columns of each half are divided
        false => (0..2).for_each(compute),
    }
    // SAFETY: both halves have been written, and are not aliased
    unsafe {
        add_to(c, sums.as_const(), rows, columns);
        epilogue.apply(rows, columns, c);
    }
}

/// `c = c + terms`, for terms in row-major order.
///
/// # Safety
/// The terms must be readable, and `c` readable, writable and not aliased.
unsafe fn add_to<A: Element>(c: RawMatrix<*mut A>, terms: RawMatrix<*const A>, rows: usize, columns: usize) {
    for row in 0..rows {
        let (from, to) = (terms.at(row, 0).start, c.at(row, 0).start);
        // SAFETY: guaranteed by the caller
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

/// Whether `cᵀ = bᵀ · aᵀ` is less work. The lanes of a register are columns, so there should be
/// many columns, contiguous in `b` and `c`.
pub(super) fn is_better_transposed<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>) -> bool {
    let &Gemm { rows, depth, columns, a, b, c, .. } = product;
    // in cycles
    let work = |rows: usize, columns: usize, packing: bool, scatters: bool| {
        let wide = kernels.registers(columns);
        let multiply = rows * wide * depth / 2;
        // a tile of one register has too few accumulators to hide the latency of the multiply-adds
        let multiply = if wide == 1 { multiply * 4 / 3 } else { multiply };
        let copy = if packing { depth * columns / 2 } else { 0 };
        let scatter = if scatters { 3 * rows * columns } else { 0 };
        multiply + copy + scatter
    };
    work(columns, rows, a.row != 1, c.row != 1) < work(rows, columns, b.column != 1, c.column != 1)
}

/// Whether a panel with contiguous columns should be packed because its rows are far apart. `bytes`
/// is the width of the panel, and `rows` the number of rows of the result that read it.
///
/// Rows in different pages collide in the caches, and the TLB misses take longer than reading a
/// narrow panel. If a row of the panel is a single cache line, a quarter of a page between rows is
/// enough: the hardware prefetcher does not predict the next row, and the adjacent line that it
/// loads belongs to another panel.
pub(super) fn is_scattered(bytes: usize, rows: usize, row_bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let apart = if bytes == CACHE_LINE_BYTES { PAGE / 4 } else { PAGE };
    row_bytes >= apart && rows >= bytes
}

/// The break-even of packing a panel with rows that are not aligned to cache lines.
const SPLIT_ROWS: usize = 96;

/// Whether a panel should be packed because its rows are not aligned to cache lines. With registers
/// as wide as a line, each load would touch two lines.
pub(super) fn is_split(address: usize, row_bytes: usize, register_bytes: usize, rows: usize) -> bool {
    rows >= SPLIT_ROWS && register_bytes == CACHE_LINE_BYTES && !(address | row_bytes).is_multiple_of(CACHE_LINE_BYTES)
}

/// Whether a panel should be packed if it is in the cache of another core: because another thread
/// has written half of it, as the optimizer does with a weight, or because slices of it are
/// prefetched. A product loads the lines of distant rows a few at a time, a copy as many as the
/// core supports.
pub(super) fn is_far(row_bytes: usize, rows: usize) -> bool {
    const ROWS: usize = 128;
    const APART: usize = 1024;
    rows >= ROWS && row_bytes >= APART
}

/// A `b` of fewer bytes may stay in L2 after its first use. A tile of wide registers reads a panel
/// from L2 at the speed of the multiplications, so packing or k-slicing would cost more.
const B_IN_L2_BYTES: usize = 1 << 20;

/// A larger packed `b` would be read from memory.
const MAX_SHARED_COPY_BYTES: usize = 1 << 22;

/// Whether tasks that divide the rows share one packed copy of `b`. This is the case for the
/// gradient of a weight, with an `a` in column order. It has not been measured for several
/// k-blocks.
pub(super) fn is_one_copy(task_packing: Packing, depth: usize, row_bytes: usize) -> bool {
    task_packing.a && task_packing.b && depth <= K_BLOCK && depth * row_bytes <= MAX_SHARED_COPY_BYTES
}

/// Whether the rows are divided into many tasks that share one packed copy of `b`. A few rows at a
/// time then pass all panels while they are in L2. Otherwise each task would have some of the
/// panels and read all rows from a more distant cache. Pays where no panel is k-sliced.
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

/// The number of rows of such a task, or a few more.
const TALL_TASK_ROWS: usize = 64;

/// Products that take less are computed on one thread.
const MIN_PARALLEL_NANOSECONDS: f64 = 20_000.0;
/// The target duration of a task. There are at least two tasks.
const TASK_NANOSECONDS: f64 = 50_000.0;
/// The target number of tasks, unless they would take too long. A power of two, so that two or four
/// threads have equal shares.
const TARGET_TASKS: usize = 8;
/// The maximum duration of a task in nanoseconds: beyond, more threads can help.
const MAX_TASK_NANOSECONDS: f64 = 4_000_000.0;
/// With so few rows, most of the memory traffic is `b`, of which each number is read once. Then `b`
/// is divided, rather than read by several threads.
const FEW_ROWS: usize = 32;
/// Results of this size are summed in negligible time.
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
    // usually each task packs its own copy
    let (address, register) = (b.start.addr(), bytes(kernels.lanes));
    let packing_for = |rows, shared| {
        let sliced = || Packing { b: true, ..packing }.is_k_sliced(kernels, &Gemm { rows, ..*product });
        let is_elsewhere = || match kernels.slices {
            [] => shared,
            _ => depth * b_row >= B_IN_L2_BYTES && (shared || sliced()),
        };
        let is_worth_it = is_split(address, b_row, register, rows) || is_far(b_row, rows) && is_elsewhere();
        Packing { b: packing.b || columns >= wide && is_worth_it, ..packing }
    };
    let nanoseconds = nanoseconds::<A>(rows, depth, columns);
    // without idle threads, a small product is not divided
    if nanoseconds < MIN_PARALLEL_NANOSECONDS
        || nanoseconds < 2.0 * TASK_NANOSECONDS && !parallel::is_divided(2, nanoseconds / 2.0)
    {
        // SAFETY: guaranteed by the caller
        return unsafe { multiply_blocks(kernels, product, packing_for(rows, false)) };
    }
    // divide the rows into blocks; if these are too few, into smaller ones if each packs its own
    // `a`, otherwise the columns into panels, and then the rows into tiles
    let wanted = ((nanoseconds / TASK_NANOSECONDS) as usize)
        .clamp(2, TARGET_TASKS)
        .max((nanoseconds / MAX_TASK_NANOSECONDS) as usize);
    let parts = depth.div_ceil(K_BLOCK);
    if rows <= FEW_ROWS && rows * columns <= SMALL_RESULT_LEN && parts >= wanted {
        // SAFETY: guaranteed by the caller
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
    // a task of a few rows would have wider panels
    let one_copy = tall || is_one_copy(task_packing, depth, bytes(columns));
    let share_copy = down.len() > 1 && kernels.tile_columns_for(least) == wide && one_copy;
    let mut scratch = Scratch::<A>::take(if share_copy { depth * columns.next_multiple_of(wide) } else { 0 });
    let b = if share_copy {
        // SAFETY: guaranteed by the caller
        unsafe { pack_panels(kernels, b, depth, columns, wide, scratch.as_mut_slice()) }
    } else {
        b
    };
    parallel::for_each(several, each, |task| {
        let ((row, rows), (column, columns)) = (down[task % down.len()], across[task / down.len()]);
        let (a, b, addend, c) = (a.at(row, 0), b.at(0, column), addend.at(row, column), c.at(row, column));
        let packing = if share_copy { Packing { b: false, ..task_packing } } else { packing_for(rows, shared) };
        // SAFETY: guaranteed by the caller for this part of the product; if `b` has been packed,
        // the part begins at a packed panel
        unsafe { multiply_blocks(kernels, &Gemm { rows, columns, a, b, addend, c, ..*product }, packing) };
    });
}

/// Computes the k-blocks in parallel, and then adds them in order, with the same bits as on one
/// thread.
///
/// The rows of a weight `b` that a thread reads for a few samples are those that the same thread
/// will update, since the update is divided by rows.
///
/// # Safety
/// That of [`multiply`].
unsafe fn multiply_parts<A: Element>(kernels: &KernelTable<A>, product: &Gemm<A>, packing: Packing, nanoseconds: f64) {
    let &Gemm { rows, depth, columns, a, b, c, beta, epilogue, .. } = product;
    let parts: Vec<(usize, usize)> = even_parts(depth, K_BLOCK).collect();
    let each = rows * columns;
    let mut scratch = Scratch::<A>::take(each * (parts.len() - 1));
    let others = RawMatrix { start: scratch.as_mut_slice().as_mut_ptr(), row: columns as isize, column: 1 };
    parallel::for_each(parts.len(), nanoseconds / parts.len() as f64, |part| {
        let (from, depth) = parts[part];
        let (a, b) = (a.at(0, from), b.at(from, 0));
        let (c, beta) = if part == 0 { (c, beta) } else { (others.at((part - 1) * rows, 0), A::zero()) };
        // SAFETY: guaranteed by the caller for this part; each of the other parts has its own place
        // in the scratch memory, which is written before it is read
        unsafe {
            multiply_blocks(kernels, &Gemm { depth, a, b, c, beta, epilogue: Epilogue::None, ..*product }, packing)
        };
    });
    for part in 1..parts.len() {
        // SAFETY: `c` and the scratch memory have been written, and are not aliased
        unsafe { add_to(c, others.at((part - 1) * rows, 0).as_const(), rows, columns) };
    }
    // SAFETY: guaranteed by the caller
    unsafe { epilogue.apply(rows, columns, c) };
}
