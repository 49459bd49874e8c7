//! Products of matrices: `c = alpha · a · b + beta · old`, where what is old is mostly `c`; and
//! perhaps a pointwise operation on that.
//!
//! The sums of a tile of the result stay in registers while they run over the depth, and the two
//! operands are read where they are or, if that pays, copied first in the order in which they are
//! read: transposed operands cost no more than that. There are kernels for AVX-512, for AVX2, and
//! for any processor; which one is chosen when it runs.
//!
//! Each element is a chain of multiply-adds over the depth, in as few equal parts as none is longer
//! than [`DEPTH`](run::DEPTH), whatever tile it is in. So its bits depend neither on how the
//! product is divided, nor on the number of threads, nor on the sizes of caches. Only the product
//! of a matrix and a vector has another order, which depends on the shape, and on whether the
//! vector meets rows or columns that lie one after the other.
//!
//! The kernels work on raw pointers. They are made here, from views, and all that a kernel may
//! touch is checked here.

mod dot;
mod finish;
mod kernels;
mod lanes;
mod outer;
mod pack;
mod run;
mod slices;
mod square;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use finish::Finish;
pub(crate) use outer::{nanoseconds_of_sum, sum_of_outer};
pub(crate) use pack::Scratch;

use crate::lines::{self, LINE_BYTES, Room};
use dl_core::{Number, buffers, parallel};
use kernels::Kernels;
use ndarray::{Array, ArrayView, ArrayView2, ArrayViewMut2, Dimension};
use pack::pack_panels;
use run::{Copies, DEPTH, Product, even, multiply_blocks, pieces};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use tile::Raw;

/// Numbers for which there are kernels.
pub trait Multiply: Number {
    #[doc(hidden)]
    fn kernels() -> &'static Kernels<Self>;

    #[cfg(test)]
    fn all_kernels() -> Vec<&'static Kernels<Self>>;
}

/// A matrix to read.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, A> {
    raw: Raw<*const A>,
    rows: usize,
    columns: usize,
    view: PhantomData<&'a A>,
}

// SAFETY: it is a shared borrow of numbers
unsafe impl<A: Sync> Send for Matrix<'_, A> {}
unsafe impl<A: Sync> Sync for Matrix<'_, A> {}

impl<'a, A: Multiply> Matrix<'a, A> {
    /// A matrix, or a vector as a row.
    pub(crate) fn row<D: Dimension>(view: &ArrayView<'a, A, D>) -> Self {
        Self::new(view, |length, stride| ([1, length], [0, stride]))
    }

    /// A matrix, or a vector as a column.
    pub(crate) fn column<D: Dimension>(view: &ArrayView<'a, A, D>) -> Self {
        Self::new(view, |length, stride| ([length, 1], [stride, 0]))
    }

    fn new<D: Dimension>(
        view: &ArrayView<'a, A, D>,
        vector: impl FnOnce(usize, isize) -> ([usize; 2], [isize; 2]),
    ) -> Self {
        let ([rows, columns], [row, column]) = match (view.shape(), view.strides()) {
            (&[rows, columns], &[row, column]) => ([rows, columns], [row, column]),
            (&[length], &[stride]) => vector(length, stride),
            (shape, _) => unreachable!("{shape:?} is the shape of neither a matrix nor a vector"),
        };
        Matrix { raw: Raw { start: view.as_ptr(), row, column }, rows, columns, view: PhantomData }
    }
}

/// Whether each element of such a product is a single chain of multiply-adds, to which
/// [`product_into`] adds what was there with one more rounding.
pub(crate) fn is_one_chain(rows: usize, depth: usize, columns: usize) -> bool {
    rows > 1 && columns > 1 && depth <= DEPTH
}

/// `c = alpha · a · b + beta · c`. With a `beta` of 0, what was in `c` does not count, not even if
/// it is NaN.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn product_into<A: Multiply>(
    alpha: A,
    a: ArrayView2<'_, A>,
    b: ArrayView2<'_, A>,
    beta: A,
    c: &mut ArrayViewMut2<'_, A>,
) {
    let (rows, depth, columns) = (a.nrows(), a.ncols(), b.ncols());
    assert!(b.nrows() == depth && c.dim() == (rows, columns), "the shapes of a product fit");
    let &[row, column] = c.strides() else { unreachable!("a matrix has two strides") };
    let c = Raw { start: c.as_mut_ptr(), row, column };
    let (a, b) = (Matrix::row(&a).raw, Matrix::row(&b).raw);
    let (old, finish) = (c.to_read(), Finish::Nothing);
    // SAFETY: the views are of these shapes, and that of `c` is unique
    unsafe { multiply(A::kernels(), &Product { rows, depth, columns, alpha, a, b, beta, old, c, finish }) }
}

/// The product of two matrices, in row-major order, as an array of this shape, in a buffer that the
/// pass may have at hand. A row that is given is added to each of it: to the bit what
/// [`product_into`] makes of such rows. An operation that is to finish it gives, to the bit, what
/// it would give by itself.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn product<A: Multiply, D: Dimension>(
    a: Matrix<'_, A>,
    b: Matrix<'_, A>,
    row: Option<&[A]>,
    finish: Finish,
    shape: D,
) -> Array<A, D> {
    let len = a.rows * b.columns;
    if lines::matter::<A>(len) {
        let mut room = Room::<A>::new(len);
        let to = room.elements();
        // SAFETY: numbers are written there
        product_to(a, b, row, finish, unsafe { from_raw_parts_mut(to.as_mut_ptr().cast(), len) });
        return room.into_array(shape);
    }
    let mut elements = buffers::take(len);
    product_to(a, b, row, finish, &mut elements.spare_capacity_mut()[..len]);
    // SAFETY: all of them were written
    unsafe { elements.set_len(len) };
    Array::from_shape_vec(shape, elements).expect("one element each")
}

/// The products of pairs of matrices, all of the same shapes, one after the other.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn products<A: Multiply>(pairs: &[(Matrix<'_, A>, Matrix<'_, A>)]) -> Vec<A> {
    let Some((a, b)) = pairs.first() else { return Vec::new() };
    let each = a.rows * b.columns;
    let len = pairs.len() * each;
    let mut elements: Vec<A> = buffers::take(len);
    if each > 0 {
        let mut parts: Vec<&mut [MaybeUninit<A>]> =
            elements.spare_capacity_mut()[..len].chunks_exact_mut(each).collect();
        let nanoseconds = nanoseconds::<A>(a.rows, a.columns, b.columns);
        parallel::for_each_mut(&mut parts, nanoseconds, |i, part| {
            product_to(pairs[i].0, pairs[i].1, None, Finish::Nothing, part)
        });
    }
    // SAFETY: all of them were written: there is a part for each pair
    unsafe { elements.set_len(len) };
    elements
}

/// A buffer in parts of equal length, each of which is written whole by `work`, in about so many
/// nanoseconds: what is there at first may be anything.
///
/// # Panics
/// If the length is not a multiple of that of a part.
pub(crate) fn in_parts<A: Multiply>(
    len: usize,
    each: usize,
    nanoseconds: f64,
    work: impl Fn(usize, &mut [A]) + Sync,
) -> Vec<A> {
    let mut elements: Vec<A> = buffers::take_filled(len);
    if len > 0 {
        assert!(len.is_multiple_of(each), "parts of equal length");
        let mut parts: Vec<&mut [A]> = elements.chunks_exact_mut(each).collect();
        parallel::for_each_mut(&mut parts, nanoseconds, |i, part| work(i, part));
    }
    elements
}

/// The product of two matrices, and of a row that is added to each of it, in row-major order, which
/// fills all of `to`.
fn product_to<A: Multiply>(
    a: Matrix<'_, A>,
    b: Matrix<'_, A>,
    row: Option<&[A]>,
    finish: Finish,
    to: &mut [MaybeUninit<A>],
) {
    let (rows, depth, columns) = (a.rows, a.columns, b.columns);
    assert!(b.rows == depth && to.len() == rows * columns, "the shapes of a product fit");
    assert!(row.is_none_or(|row| row.len() == columns), "the shapes of a product fit");
    let c = Raw { start: to.as_mut_ptr().cast(), row: columns as isize, column: 1 };
    let (beta, old) = match row {
        Some(row) => (A::one(), Raw { start: row.as_ptr(), row: 0, column: 1 }),
        None => (A::zero(), c.to_read()),
    };
    let (alpha, a, b) = (A::one(), a.raw, b.raw);
    // SAFETY: the matrices and the row are of these shapes; `to` is unique, has the size of the
    // result, and is not read before it was written
    unsafe { multiply(A::kernels(), &Product { rows, depth, columns, alpha, a, b, beta, old, c, finish }) }
}

/// About how long a product takes on one thread.
pub(crate) fn nanoseconds<A: Multiply>(rows: usize, depth: usize, columns: usize) -> f64 {
    // of two registers full of multiply-adds in each cycle
    const REGISTER: f64 = 0.128;
    let each = REGISTER / A::kernels().lanes as f64;
    let (rows, depth, columns) = (rows as f64, depth as f64, columns as f64);
    20.0 + each * rows * depth * columns + 0.05 * (rows * depth + depth * columns + rows * columns)
}

/// # Safety
/// All that belongs to the product can be read, or written, and nobody else has `c`. What is old is
/// `c`, or elsewhere. With a `beta` of 0 it is not read; where it is not `c`, `c` is not read
/// before it was written.
unsafe fn multiply<A: Multiply>(kernels: &Kernels<A>, product: &Product<A>) {
    let &Product { rows, depth, columns, alpha, a, b, beta, old, c, finish } = product;
    if rows == 0 || columns == 0 {
        return;
    }
    if depth == 0 {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let (old, to) = (old.at(row, column).start, c.at(row, column).start);
            // SAFETY: as the caller says
            unsafe { to.write(if beta == A::zero() { A::zero() } else { beta * *old }) };
        }
        // SAFETY: as the caller says
        return unsafe { finish.apply(rows, columns, c) };
    }
    if depth > 1 && a.column == 1 && b.row == 1 && (rows == 1 || columns == 1) {
        let of_rows = |rows, a: Raw<*const A>, vector, old: Raw<*const A>, c: Raw<*mut A>| {
            let dot = |row: usize| {
                // SAFETY: both are of length `depth`, and each row has its place in `c`
                unsafe {
                    let (old, to) = (old.at(row, 0).start, c.at(row, 0).start);
                    let sum = alpha * (kernels.dot)(a.at(row, 0).start, vector, depth);
                    to.write(if beta == A::zero() { sum } else { beta * *old + sum });
                }
            };
            (0..rows).for_each(dot);
        };
        if columns == 1 {
            of_rows(rows, a, b.start, old, c);
        } else {
            of_rows(columns, b.transposed(), a.start, old.transposed(), c.transposed());
        }
        // SAFETY: as the caller says
        return unsafe { finish.apply(rows, columns, c) };
    }
    // SAFETY: as the caller says
    unsafe {
        if is_better_transposed(kernels, product) {
            let (a, b, old, c) = (b.transposed(), a.transposed(), old.transposed(), c.transposed());
            multiply_tiles(kernels, &Product { rows: columns, columns: rows, a, b, old, c, ..*product });
        } else {
            multiply_tiles(kernels, product);
        }
    }
}

/// Whether `cᵀ = bᵀ · aᵀ` is less work: the lanes of a register are columns, which should be many,
/// and lie one after the other in `b` and `c`.
fn is_better_transposed<A: Multiply>(kernels: &Kernels<A>, product: &Product<A>) -> bool {
    let &Product { rows, depth, columns, a, b, c, .. } = product;
    // in cycles
    let work = |rows: usize, columns: usize, copies: bool, scatters: bool| {
        let wide = kernels.registers(columns);
        let multiply = rows * wide * depth / 2;
        // the sums of a tile of one register are too few to keep the processor busy
        let multiply = if wide == 1 { multiply * 4 / 3 } else { multiply };
        let copy = if copies { depth * columns / 2 } else { 0 };
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
fn is_scattered(bytes: usize, rows: usize, row_bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let apart = if bytes == LINE_BYTES { PAGE / 4 } else { PAGE };
    row_bytes >= apart && rows >= bytes
}

/// Whether a panel that is read for so many rows of the result is better read from a copy because
/// its rows do not begin where lines of the cache do: where a register is as wide as a line, each
/// is in two of them.
fn is_split(place: usize, row_bytes: usize, register_bytes: usize, rows: usize) -> bool {
    // the copy costs as much as these
    const ROWS: usize = 96;
    rows >= ROWS && register_bytes == LINE_BYTES && !(place | row_bytes).is_multiple_of(LINE_BYTES)
}

/// Whether a panel that is read for so many rows of a piece is better read from a copy if it comes
/// from far away: because another thread has written half of it, as it has of a weight that takes
/// steps by rows, or because it is copied slice by slice, and lines are asked for ahead. Where rows
/// lie apart, a product fetches their lines a few at a time, and a copy as many at once as the
/// processor can.
fn is_far(row_bytes: usize, rows: usize) -> bool {
    const ROWS: usize = 128;
    const APART: usize = 1024;
    rows >= ROWS && row_bytes >= APART
}

/// A `b` of fewer bytes may be in the second cache, once a thread has read it for the first of its
/// rows. From there a tile of wide registers reads its panel as fast as it multiplies, and to copy
/// it, or to multiply it slice by slice, takes longer.
const FAR: usize = 1 << 20;

/// A larger copy of `b` would come from memory.
const LARGEST_COPY: usize = 1 << 22;

/// Whether the pieces that divide the rows, which would copy this, have one copy of `b` for all of
/// them: as they are for the step of a weight, for which `a` lies in columns. With several parts of
/// the sums that was not measured.
fn is_one_copy(of_piece: Copies, depth: usize, row_bytes: usize) -> bool {
    of_piece.a && of_piece.b && depth <= DEPTH && depth * row_bytes <= LARGEST_COPY
}

/// Whether so many rows are divided into many pieces, which have one copy of `b`: few rows at a
/// time go through all panels, and stay in the second cache. Else each piece would have some
/// panels, and read all rows from further away. That pays where no panel is multiplied slice by
/// slice.
fn is_tall<A: Multiply>(kernels: &Kernels<A>, copies: Copies, rows: usize, depth: usize, row_bytes: usize) -> bool {
    const ROWS: usize = 512;
    kernels.slices.is_empty() && !copies.a && copies.b && rows >= ROWS && depth * row_bytes <= LARGEST_COPY
}

/// So many of these rows, or a few more, are a piece.
const ROWS_OF_TALL: usize = 64;

/// What takes less is not worth a second thread.
const LEAST: f64 = 20_000.0;
/// A piece for a thread takes about so many nanoseconds, but there are two at least.
const PIECE: f64 = 50_000.0;
/// There are about so many pieces, unless they would take longer than that each. A power of two, so
/// that two or four threads have as many each.
const PIECES: usize = 8;
/// In nanoseconds: that many threads have something to do.
const LONGEST_PIECE: f64 = 4_000_000.0;
/// With so few rows, most of what is read is `b`, each number of it once: it is divided, and not
/// read by several threads.
const FEW_ROWS: usize = 32;
/// So many results are added in no time, compared with what it takes to compute them.
const FEW_NUMBERS: usize = 1 << 14;

/// # Safety
/// That of [`multiply`].
unsafe fn multiply_tiles<A: Multiply>(kernels: &Kernels<A>, product: &Product<A>) {
    let &Product { rows, depth, columns, a, b, old, c, .. } = product;
    let (high, wide) = (kernels.high(), kernels.wide_for(rows));
    let bytes = |numbers: usize| numbers * size_of::<A>();
    let b_row = bytes(b.row.unsigned_abs());
    let copies = Copies {
        a: a.column != 1 && columns >= 4 * wide && rows * columns * depth >= 1 << 20,
        b: b.column != 1 || is_scattered(bytes(wide), rows, b_row),
    };
    // mostly each piece makes a copy of its own
    let (place, register) = (b.start.addr(), bytes(kernels.lanes));
    let copies_for = |rows, shared| {
        let sliced = || Copies { b: true, ..copies }.are_slices(kernels, &Product { rows, ..*product });
        let is_elsewhere = || match kernels.slices {
            [] => shared,
            _ => depth * b_row >= FAR && (shared || sliced()),
        };
        let is_worth_it = is_split(place, b_row, register, rows) || is_far(b_row, rows) && is_elsewhere();
        Copies { b: copies.b || columns >= wide && is_worth_it, ..copies }
    };
    let nanoseconds = nanoseconds::<A>(rows, depth, columns);
    // where nobody is going to help, a division that is not large is left out
    if nanoseconds < LEAST || nanoseconds < 2.0 * PIECE && !parallel::is_divided(2, nanoseconds / 2.0) {
        // SAFETY: as the caller says
        return unsafe { multiply_blocks(kernels, product, copies_for(rows, false)) };
    }
    // whole blocks; if they are too few, smaller ones if each has its copy of `a`, else some panels
    // of columns each, and then some tiles of rows
    let wanted = ((nanoseconds / PIECE) as usize).clamp(2, PIECES).max((nanoseconds / LONGEST_PIECE) as usize);
    let parts = depth.div_ceil(DEPTH);
    if rows <= FEW_ROWS && rows * columns <= FEW_NUMBERS && parts >= wanted {
        // SAFETY: as the caller says
        return unsafe {
            match parallel::is_divided(parts, nanoseconds / parts as f64) {
                true => multiply_parts(kernels, product, copies, nanoseconds),
                false => multiply_blocks(kernels, product, copies),
            }
        };
    }
    let wanted = wanted.next_power_of_two();
    let tall = is_tall(kernels, copies, rows, depth, bytes(columns));
    let smaller = match copies.a {
        true => wanted.min(rows / copies.least_rows()),
        false if tall => (rows / ROWS_OF_TALL).min(wanted.max((nanoseconds / PIECE) as usize)),
        false => 1,
    };
    let blocks = rows.div_ceil(copies_for(rows, false).rows()).max(smaller);
    let panels = columns.div_ceil(wide).div_ceil(wanted.div_ceil(blocks));
    let across: Vec<_> = pieces(columns, panels * wide).collect();
    let tiles = rows.div_ceil(high).div_ceil(blocks.max(wanted.div_ceil(across.len())));
    let down: Vec<_> = even(rows, tiles * high).collect();
    let several = across.len() * down.len();
    let each = nanoseconds / several as f64;
    let shared = parallel::is_divided(several, each);
    let least = down.last().map_or(0, |&(_, rows)| rows);
    let of_piece = copies_for(least, shared);
    // a piece of a few rows would have wider panels
    let one_copy = tall || is_one_copy(of_piece, depth, bytes(columns));
    let share_copy = down.len() > 1 && kernels.wide_for(least) == wide && one_copy;
    let mut room = Scratch::<A>::take(if share_copy { depth * columns.next_multiple_of(wide) } else { 0 });
    let b = if share_copy {
        // SAFETY: as the caller says
        unsafe { pack_panels(kernels, b, depth, columns, wide, room.numbers()) }
    } else {
        b
    };
    parallel::for_each(several, each, |piece| {
        let ((row, rows), (column, columns)) = (down[piece % down.len()], across[piece / down.len()]);
        let (a, b, old, c) = (a.at(row, 0), b.at(0, column), old.at(row, column), c.at(row, column));
        let copies = if share_copy { Copies { b: false, ..of_piece } } else { copies_for(rows, shared) };
        // SAFETY: as the caller says, for this part of the product, or `b` has been copied, and
        // panels begin where they have been copied to
        unsafe { multiply_blocks(kernels, &Product { rows, columns, a, b, old, c, ..*product }, copies) };
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
unsafe fn multiply_parts<A: Multiply>(kernels: &Kernels<A>, product: &Product<A>, copies: Copies, nanoseconds: f64) {
    let &Product { rows, depth, columns, a, b, c, beta, finish, .. } = product;
    let parts: Vec<(usize, usize)> = even(depth, DEPTH).collect();
    let each = rows * columns;
    let mut room = Scratch::<A>::take(each * (parts.len() - 1));
    let others = Raw { start: room.numbers().as_mut_ptr(), row: columns as isize, column: 1 };
    parallel::for_each(parts.len(), nanoseconds / parts.len() as f64, |part| {
        let (from, depth) = parts[part];
        let (a, b) = (a.at(0, from), b.at(from, 0));
        let (c, beta) = if part == 0 { (c, beta) } else { (others.at((part - 1) * rows, 0), A::zero()) };
        // SAFETY: as the caller says, for this part; each of the others has its own place in the
        // room, and is added to nothing
        unsafe {
            multiply_blocks(kernels, &Product { depth, a, b, c, beta, finish: Finish::Nothing, ..*product }, copies)
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
    unsafe { finish.apply(rows, columns, c) };
}
