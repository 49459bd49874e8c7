//! Sums of products `xᵀ·δ` of few rows each: the delta of a weight that is applied to one sample,
//! or to a few, at a time. A product of one row is an outer product (rank-1 update).

use super::dispatch::kernels;
use super::nanoseconds;
use super::simd::SimdVector;
use crate::tensor::Element;
use dl_core::{buffers, parallel};

/// The number of rows of the result of a task.
const TASK_ROWS: usize = 8;

/// A term: the addresses of the factors, and how many rows both have.
#[derive(Clone, Copy)]
pub(super) struct Term<A> {
    left: *const A,
    right: *const A,
    rows: usize,
}

/// Terms that threads share.
struct Terms<A>(Vec<Term<A>>);

// SAFETY: they are addresses of borrowed numbers that are only read
unsafe impl<A: Sync> Sync for Terms<A> {}

/// The sum of the products `xᵀ·δ` of these factors as a matrix of this shape. All are in row-major
/// order. The bits are those of the [products](super::product) added one by one, as long as each
/// of them is a [single chain](super::is_single_chain).
///
/// # Panics
/// If the factors of a product do not have as many rows, or not these lengths.
pub(crate) fn sum_of_row_products<A: Element>(factors: &[(&[A], &[A])], shape: [usize; 2]) -> Vec<A> {
    let [rows, columns] = shape;
    let mut sum: Vec<A> = buffers::take_filled(rows * columns);
    if sum.is_empty() {
        return sum;
    }
    let term = |&(left, right): &(&[A], &[A])| {
        let count = left.len() / rows;
        assert!([left.len(), right.len()] == [count * rows, count * columns], "the factors have these lengths");
        Term { left: left.as_ptr(), right: right.as_ptr(), rows: count }
    };
    let terms = Terms(factors.iter().map(term).collect());
    let count = terms.0.iter().map(|term| term.rows).sum();
    let each = nanoseconds_of_row_products::<A>(count, TASK_ROWS, columns);
    let mut tasks: Vec<&mut [A]> = sum.chunks_mut(TASK_ROWS * columns).collect();
    let kernels = kernels::<A>();
    parallel::for_each_mut(&mut tasks, each, |task, sums| {
        let Terms(terms) = &terms;
        for (row, to) in sums.chunks_exact_mut(columns).enumerate() {
            // SAFETY: the factors have these lengths, and `to` has `columns` numbers
            unsafe { (kernels.sum_of_row)(terms, task * TASK_ROWS + row, shape, to.as_mut_ptr()) };
        }
    });
    drop(tasks);
    sum
}

/// The estimated time of such a sum on one thread, where the factors have `count` rows in total.
pub(crate) fn nanoseconds_of_row_products<A: Element>(count: usize, rows: usize, columns: usize) -> f64 {
    nanoseconds::<A>(rows, 2 * count, columns)
}

/// A row of the sum, whose shape is given.
///
/// # Safety
/// The factors of each term must be readable, and a row of the sum writable.
#[inline(always)]
pub(super) unsafe fn sum_of_row<L: SimdVector<Number = A>, A: Element>(
    terms: &[Term<A>],
    row: usize,
    shape: [usize; 2],
    to: *mut A,
) {
    // SAFETY: guaranteed by the caller
    unsafe {
        if terms.iter().all(|term| term.rows == 1) {
            sum_of_columns::<L, A, true>(terms, row, shape, to);
        } else {
            sum_of_columns::<L, A, false>(terms, row, shape, to);
        }
    }
}

/// The same, register by register. With `OUTER`, all terms are outer products.
///
/// # Safety
/// That of [`sum_of_row`].
#[inline(always)]
unsafe fn sum_of_columns<L: SimdVector<Number = A>, A: Element, const OUTER: bool>(
    terms: &[Term<A>],
    row: usize,
    shape: [usize; 2],
    to: *mut A,
) {
    // Other terms have two sums in each register of the result. There are 32 registers if they are
    // wide.
    let has_room = OUTER || size_of::<L>() == 64;
    let (columns, mut from) = (shape[1], 0);
    // SAFETY: guaranteed by the caller for these columns
    unsafe {
        while has_room && from + 8 * L::N <= columns {
            sum_of_registers::<L, A, OUTER, 8>(terms, row, shape, (from, L::N), to);
            from += 8 * L::N;
        }
        while from + 4 * L::N <= columns {
            sum_of_registers::<L, A, OUTER, 4>(terms, row, shape, (from, L::N), to);
            from += 4 * L::N;
        }
        while from < columns {
            let last = L::N.min(columns - from);
            sum_of_registers::<L, A, OUTER, 1>(terms, row, shape, (from, last), to);
            from += last;
        }
    }
}

/// The columns of `COUNT` registers, from `from` on; the last register has `last` of them.
///
/// # Safety
/// That of [`sum_of_row`] for these columns.
#[inline(always)]
unsafe fn sum_of_registers<L: SimdVector<Number = A>, A: Element, const OUTER: bool, const COUNT: usize>(
    terms: &[Term<A>],
    row: usize,
    [rows, columns]: [usize; 2],
    (from, last): (usize, usize),
    to: *mut A,
) {
    let zeros = [L::splat(A::zero()); COUNT];
    let mut sums = zeros;
    for (nth, term) in terms.iter().enumerate() {
        let (mut left, mut right) = (term.left.wrapping_add(row), term.right.wrapping_add(from));
        let mut chains = zeros;
        for _ in 0..if OUTER { 1 } else { term.rows } {
            // SAFETY: guaranteed by the caller
            let factor = L::splat(unsafe { *left });
            for (i, chain) in chains.iter_mut().enumerate() {
                // SAFETY: guaranteed by the caller
                let factors = unsafe {
                    let factors = right.add(i * L::N);
                    if last == L::N { L::load(factors) } else { L::load_some(factors, last) }
                };
                *chain = if OUTER { factor.multiply(factors) } else { factor.multiply_add(factors, *chain) };
            }
            (left, right) = (left.wrapping_add(rows), right.wrapping_add(columns));
        }
        if !OUTER && nth == 0 {
            sums = chains;
        } else {
            for (sum, chain) in sums.iter_mut().zip(chains) {
                *sum = sum.add(chain);
            }
        }
    }
    for (i, sum) in sums.into_iter().enumerate() {
        // SAFETY: guaranteed by the caller
        unsafe {
            let to = to.add(from + i * L::N);
            if last == L::N { sum.store(to) } else { sum.store_some(to, last) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::{Epilogue, MatrixRef, product_over};

    /// Numbers with rounded sums, and some special ones.
    fn numbers<A: Element>(count: usize, seed: usize) -> Vec<A> {
        let number = |i: usize| match (i * 31 + seed) % 97 {
            0 => -0.0,
            1 => f64::INFINITY,
            2 => f64::NAN,
            _ => ((i * 37 + seed * 101) % 211) as f64 / 97.0 - 1.0,
        };
        (0..count).map(|i| A::of(number(i))).collect()
    }

    fn is_same<A: Element>(a: A, b: A) -> bool {
        let [a, b] = [a, b].map(|x| x.to_f64().expect("a number"));
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    /// A term for each of these numbers of rows.
    fn is_a_sum_of_products<A: Element>([rows, columns]: [usize; 2], terms: &[usize]) {
        let left: Vec<Vec<A>> = terms.iter().enumerate().map(|(nth, count)| numbers(count * rows, nth)).collect();
        let right: Vec<Vec<A>> =
            terms.iter().enumerate().map(|(nth, count)| numbers(count * columns, terms.len() + nth)).collect();
        let factors: Vec<(&[A], &[A])> = left.iter().zip(&right).map(|(a, b)| (&a[..], &b[..])).collect();
        let sum = sum_of_row_products(&factors, [rows, columns]);
        let mut expected: Option<Vec<A>> = None;
        for (&(a, b), &count) in factors.iter().zip(terms) {
            let a = MatrixRef::of_elements(a, [rows, count], true);
            let mut product = numbers(rows * columns, 0);
            product_over(a, MatrixRef::of_elements(b, [count, columns], false), None, Epilogue::None, &mut product);
            expected = Some(match expected {
                Some(sum) => sum.into_iter().zip(product).map(|(sum, product)| sum + product).collect(),
                None => product,
            });
        }
        let expected = expected.expect("there are terms");
        assert_eq!(sum.len(), expected.len());
        for (place, (&sum, &expected)) in sum.iter().zip(&expected).enumerate() {
            assert!(
                is_same(sum, expected),
                "{rows}×{columns}, {terms:?}: element {place} is {sum:?}, not {expected:?}"
            );
        }
    }

    #[test]
    fn sum_of_row_products_has_bits_of_added_products() {
        for shape in [[2, 63], [3, 64], [4, 65], [64, 192], [5, 200], [17, 5], [0, 7], [7, 0]] {
            for terms in [&[1][..], &[1, 1], &[1; 31], &[3, 1, 8], &[16, 2, 2, 1], &[1, 5]] {
                is_a_sum_of_products::<f32>(shape, terms);
                is_a_sum_of_products::<f64>(shape, terms);
            }
        }
    }
}
