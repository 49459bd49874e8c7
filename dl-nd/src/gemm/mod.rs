//! Products of matrices: `c = alpha · a · b + beta · addend`, where what is old is mostly `c`; and
//! perhaps a pointwise operation on that.
//!
//! The sums of a tile of the result stay in registers while they run over the depth, and the two
//! operands are read where they are or, if that pays, copied first in the order in which they are
//! read: transposed operands cost no more than that. There are kernels for AVX-512, for AVX2, and
//! for any processor; which one is chosen when it runs.
//!
//! Each element is a chain of multiply-adds over the depth, in as few equal parts as none is longer
//! than [`K_BLOCK`](run::K_BLOCK), whatever tile it is in. So its bits depend neither on how the
//! product is divided, nor on the number of threads, nor on the sizes of caches. Only the product
//! of a matrix and a vector has another order, which depends on the shape, and on whether the
//! vector meets rows or columns that lie one after the other.
//!
//! The kernels work on raw pointers. They are made here, from views, and all that a kernel may
//! touch is checked here.

mod dispatch;
mod epilogue;
mod gemv;
mod k_slices;
mod microkernel;
mod pack;
mod partition;
mod rank1;
mod simd;
#[cfg(test)]
mod tests;
mod tiling;
mod transpose;

pub(crate) use epilogue::Epilogue;
pub(crate) use pack::Scratch;
pub(crate) use rank1::{nanoseconds_of_outer_sum, sum_of_outer_products};

use crate::tensor::Element;
use crate::tensor::aligned::{self, AlignedBuf};
use dispatch::kernels;
use dl_core::{buffers, parallel};
use microkernel::RawMatrix;
use ndarray::{Array, ArrayView, ArrayView2, ArrayViewMut2, Dimension};
use partition::multiply;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::slice::from_raw_parts_mut;
use tiling::{Gemm, K_BLOCK};

/// A matrix to read.
#[derive(Clone, Copy)]
pub(crate) struct MatrixRef<'a, A> {
    raw: RawMatrix<*const A>,
    rows: usize,
    columns: usize,
    view: PhantomData<&'a A>,
}

// SAFETY: it is a shared borrow of numbers
unsafe impl<A: Sync> Send for MatrixRef<'_, A> {}
unsafe impl<A: Sync> Sync for MatrixRef<'_, A> {}

impl<'a, A: Element> MatrixRef<'a, A> {
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
        MatrixRef { raw: RawMatrix { start: view.as_ptr(), row, column }, rows, columns, view: PhantomData }
    }
}

/// Whether each element of such a product is a single chain of multiply-adds, to which
/// [`product_into`] adds what was there with one more rounding.
pub(crate) fn is_single_chain(rows: usize, depth: usize, columns: usize) -> bool {
    rows > 1 && columns > 1 && depth <= K_BLOCK
}

/// `c = alpha · a · b + beta · c`. With a `beta` of 0, what was in `c` does not count, not even if
/// it is NaN.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn product_into<A: Element>(
    alpha: A,
    a: ArrayView2<'_, A>,
    b: ArrayView2<'_, A>,
    beta: A,
    c: &mut ArrayViewMut2<'_, A>,
) {
    let (rows, depth, columns) = (a.nrows(), a.ncols(), b.ncols());
    assert!(b.nrows() == depth && c.dim() == (rows, columns), "the shapes of a product fit");
    let &[row, column] = c.strides() else { unreachable!("a matrix has two strides") };
    let c = RawMatrix { start: c.as_mut_ptr(), row, column };
    let (a, b) = (MatrixRef::row(&a).raw, MatrixRef::row(&b).raw);
    let (addend, epilogue) = (c.as_const(), Epilogue::None);
    // SAFETY: the views are of these shapes, and that of `c` is unique
    unsafe { multiply(kernels::<A>(), &Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue }) }
}

/// The product of two matrices, in row-major order, as an array of this shape, in a buffer that the
/// pass may have at hand. A row that is given is added to each of it: to the bit what
/// [`product_into`] makes of such rows. An operation that is to finish it gives, to the bit, what
/// it would give by itself.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn product<A: Element, D: Dimension>(
    a: MatrixRef<'_, A>,
    b: MatrixRef<'_, A>,
    row: Option<&[A]>,
    epilogue: Epilogue,
    shape: D,
) -> Array<A, D> {
    let len = a.rows * b.columns;
    if aligned::is_worth_aligning::<A>(len) {
        let mut room = AlignedBuf::<A>::new(len);
        let to = room.elements();
        // SAFETY: numbers are written there
        product_to(a, b, row, epilogue, unsafe { from_raw_parts_mut(to.as_mut_ptr().cast(), len) });
        return room.into_array(shape);
    }
    let mut elements = buffers::take(len);
    product_to(a, b, row, epilogue, &mut elements.spare_capacity_mut()[..len]);
    // SAFETY: all of them were written
    unsafe { elements.set_len(len) };
    Array::from_shape_vec(shape, elements).expect("one element each")
}

/// The products of pairs of matrices, all of the same shapes, one after the other.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn products<A: Element>(pairs: &[(MatrixRef<'_, A>, MatrixRef<'_, A>)]) -> Vec<A> {
    let Some((a, b)) = pairs.first() else { return Vec::new() };
    let each = a.rows * b.columns;
    let len = pairs.len() * each;
    let mut elements: Vec<A> = buffers::take(len);
    if each > 0 {
        let mut parts: Vec<&mut [MaybeUninit<A>]> =
            elements.spare_capacity_mut()[..len].chunks_exact_mut(each).collect();
        let nanoseconds = nanoseconds::<A>(a.rows, a.columns, b.columns);
        parallel::for_each_mut(&mut parts, nanoseconds, |i, part| {
            product_to(pairs[i].0, pairs[i].1, None, Epilogue::None, part)
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
pub(crate) fn fill_chunks<A: Element>(
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
fn product_to<A: Element>(
    a: MatrixRef<'_, A>,
    b: MatrixRef<'_, A>,
    row: Option<&[A]>,
    epilogue: Epilogue,
    to: &mut [MaybeUninit<A>],
) {
    let (rows, depth, columns) = (a.rows, a.columns, b.columns);
    assert!(b.rows == depth && to.len() == rows * columns, "the shapes of a product fit");
    assert!(row.is_none_or(|row| row.len() == columns), "the shapes of a product fit");
    let c = RawMatrix { start: to.as_mut_ptr().cast(), row: columns as isize, column: 1 };
    let (beta, addend) = match row {
        Some(row) => (A::of(1.0), RawMatrix { start: row.as_ptr(), row: 0, column: 1 }),
        None => (A::zero(), c.as_const()),
    };
    let (alpha, a, b) = (A::of(1.0), a.raw, b.raw);
    // SAFETY: the matrices and the row are of these shapes; `to` is unique, has the size of the
    // result, and is not read before it was written
    unsafe { multiply(kernels::<A>(), &Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue }) }
}

/// About how long a product takes on one thread.
pub(crate) fn nanoseconds<A: Element>(rows: usize, depth: usize, columns: usize) -> f64 {
    // of two registers full of multiply-adds in each cycle
    const REGISTER: f64 = 0.128;
    let each = REGISTER / kernels::<A>().lanes as f64;
    let (rows, depth, columns) = (rows as f64, depth as f64, columns as f64);
    20.0 + each * rows * depth * columns + 0.05 * (rows * depth + depth * columns + rows * columns)
}
