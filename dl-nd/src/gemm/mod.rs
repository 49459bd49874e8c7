//! Matrix products: `c = alpha · a · b + beta · addend`, optionally followed by a pointwise
//! operation (the *epilogue*). The addend is usually `c` itself.
//!
//! The structure is that of BLIS. A *microkernel* accumulates a tile of the result in registers
//! over a block of the inner dimension. Operands are read in place, or packed first into the order
//! in which the microkernel reads them, if that pays; transposed operands cost no more than
//! packing. There are kernels for AVX-512, AVX2 and the baseline of the target, selected at run
//! time.
//!
//! Determinism: each element of the result is a chain of fused multiply-adds over the inner
//! dimension `k`, split into `ceil(k / K_BLOCK)` blocks of equal length. The chain does not depend
//! on the tile, the number of threads or the sizes of caches. Of a longer `k` than 16 blocks, the
//! products of both halves are added. Exception: the order in a
//! matrix-vector product depends on the shape, and on whether the vectors are contiguous.
//!
//! Safety: the kernels work on raw pointers. The pointers are made in this module from views, and
//! the bounds that the kernels rely on are checked here.

mod dispatch;
mod epilogue;
mod gemv;
mod k_slices;
mod microkernel;
mod pack;
mod partition;
mod row_products;
mod simd;
#[cfg(test)]
mod tests;
mod tiling;
mod transpose;

pub(crate) use epilogue::Epilogue;
pub(crate) use pack::Scratch;
pub(crate) use row_products::{nanoseconds_of_row_products, sum_of_row_products};

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

/// A borrowed matrix.
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

    /// A matrix of this shape. Its elements are in row-major order, or in column-major order if it is
    /// transposed.
    ///
    /// # Panics
    /// If the number of elements differs.
    pub(crate) fn of_elements(elements: &'a [A], [rows, columns]: [usize; 2], transposed: bool) -> Self {
        assert!(rows.checked_mul(columns) == Some(elements.len()), "one element each");
        let (row, column) = if transposed { (1, rows as isize) } else { (columns as isize, 1) };
        let raw = RawMatrix { start: elements.as_ptr(), row, column };
        MatrixRef { raw, rows, columns, view: PhantomData }
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

/// Whether each element of such a product is a single accumulation chain. Then [`product_into`]
/// adds the previous value with one further rounding.
pub(crate) fn is_single_chain(rows: usize, depth: usize, columns: usize) -> bool {
    rows > 1 && columns > 1 && depth <= K_BLOCK
}

/// The number of accumulators of an inner product of contiguous vectors on this processor.
pub(crate) fn accumulators<A: Element>() -> usize {
    gemv::WIDE * kernels::<A>().lanes
}

/// `c = alpha · a · b + beta · c`. With a `beta` of 0, `c` is not read, so NaN in it does not
/// matter.
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
    // SAFETY: the views have these shapes, and `c` is borrowed exclusively
    unsafe { multiply(kernels::<A>(), &Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue }) }
}

/// The product of two matrices as an array of this shape, in row-major order. `row`, if given, is
/// added to each row, with the same bits as [`product_into`] on copies of it. The epilogue gives
/// the same bits as the operation applied afterwards.
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
        let mut scratch = AlignedBuf::<A>::new(len);
        let to = scratch.elements();
        // SAFETY: only numbers are written
        product_to(a, b, row, epilogue, unsafe { from_raw_parts_mut(to.as_mut_ptr().cast(), len) });
        return scratch.into_array(shape);
    }
    let mut elements = buffers::take(len);
    product_to(a, b, row, epilogue, &mut elements.spare_capacity_mut()[..len]);
    // SAFETY: all elements have been written
    unsafe { elements.set_len(len) };
    Array::from_shape_vec(shape, elements).expect("one element each")
}

/// Writes the product of two matrices, plus `row` in each row, over all of `to`, with the bits of
/// [`product`].
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn product_over<A: Element>(
    a: MatrixRef<'_, A>,
    b: MatrixRef<'_, A>,
    row: Option<&[A]>,
    epilogue: Epilogue,
    to: &mut [A],
) {
    // SAFETY: only numbers are written
    product_to(a, b, row, epilogue, unsafe { from_raw_parts_mut(to.as_mut_ptr().cast(), to.len()) });
}

/// The time of a group of small products.
const GROUP_NANOSECONDS: f64 = 10_000.0;

/// The products of pairs of matrices of the same shapes, one after the other.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn products<A: Element>(pairs: &[(MatrixRef<'_, A>, MatrixRef<'_, A>)]) -> Vec<A> {
    let Some((a, b)) = pairs.first() else { return Vec::new() };
    let each = a.rows * b.columns;
    let len = pairs.len() * each;
    let mut elements: Vec<A> = buffers::take(len);
    if each > 0 {
        let nanoseconds = nanoseconds::<A>(a.rows, a.columns, b.columns);
        // small products are computed many at a time
        let together = (GROUP_NANOSECONDS / nanoseconds) as usize + 1;
        let mut parts: Vec<&mut [MaybeUninit<A>]> =
            elements.spare_capacity_mut()[..len].chunks_mut(together * each).collect();
        parallel::for_each_mut(&mut parts, nanoseconds * together as f64, |part, to| {
            for ((a, b), to) in pairs[part * together..].iter().zip(to.chunks_exact_mut(each)) {
                product_to(*a, *b, None, Epilogue::None, to);
            }
        });
    }
    // SAFETY: all elements have been written: there is a part for each pair
    unsafe { elements.set_len(len) };
    elements
}

/// Fills a buffer in parallel. `work` must write all `each` elements of its chunk, which takes it
/// about `nanoseconds`; their previous values are arbitrary.
///
/// # Panics
/// If `len` is not a multiple of `each`.
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

/// Writes the product of two matrices, plus `row` in each row, to all of `to`, in row-major order.
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
    // SAFETY: the matrices and the row have these shapes; `to` is borrowed exclusively, has the
    // size of the result, and is written before it is read
    unsafe { multiply(kernels::<A>(), &Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue }) }
}

/// The estimated time of a product on one thread.
pub(crate) fn nanoseconds<A: Element>(rows: usize, depth: usize, columns: usize) -> f64 {
    // for two registers of multiply-adds per cycle
    const REGISTER: f64 = 0.128;
    let each = REGISTER / kernels::<A>().lanes as f64;
    let (rows, depth, columns) = (rows as f64, depth as f64, columns as f64);
    20.0 + each * rows * depth * columns + 0.05 * (rows * depth + depth * columns + rows * columns)
}
