//! Sums of outer products (rank-1 updates).

use super::dispatch::kernels;
use super::{fill_chunks, nanoseconds};
use crate::tensor::Element;
use dl_core::buffers;
use dl_core::simd::vectorized;

/// The number of elements of a row of the result that are accumulated in registers.
const ROW_BLOCK: usize = 64;

/// The sum of the outer products of columns and rows, in order, as a row-major matrix. The bits are
/// those of the [products](super::product) added one by one.
///
/// # Panics
/// If the columns, or the rows, do not all have the same length.
pub(crate) fn sum_of_outer_products<A: Element>(factors: &[(&[A], &[A])]) -> Vec<A> {
    let Some((rows, columns)) = factors.first().map(|(column, row)| (column.len(), row.len())) else {
        return Vec::new();
    };
    assert!(factors.iter().all(|(column, row)| (column.len(), row.len()) == (rows, columns)), "they have one shape");
    // the factors of a row of the result become contiguous
    let (mut left, mut right) = (buffers::take(factors.len() * rows), buffers::take(factors.len() * columns));
    (0..rows).for_each(|row| left.extend(factors.iter().map(|(column, _)| column[row])));
    factors.iter().for_each(|(_, row)| right.extend_from_slice(row));
    let columns_of = |row: usize| &left[row * factors.len()..][..factors.len()];
    // each term depends on the previous sum: one row has too few accumulators to hide the latency
    // where registers are wide
    let in_pairs = ROW_BLOCK / kernels::<A>().lanes < 8 && rows.is_multiple_of(2);
    let together = if in_pairs { 2 } else { 1 };
    let each = nanoseconds_of_outer_sum::<A>(factors.len(), together, columns);
    let sum = fill_chunks(rows * columns, together * columns, each, |part, sums| {
        vectorized(
            #[inline(always)]
            || match in_pairs {
                true => sum_of_multiples([columns_of(2 * part), columns_of(2 * part + 1)], &right, sums),
                false => sum_of_multiples([columns_of(part)], &right, sums),
            },
        );
    });
    [left, right].into_iter().for_each(buffers::give_back);
    sum
}

/// The estimated time of a sum of outer products on one thread. Multiplications and additions are
/// not fused, and the factors are copied.
pub(crate) fn nanoseconds_of_outer_sum<A: Element>(terms: usize, rows: usize, columns: usize) -> f64 {
    nanoseconds::<A>(rows, 2 * terms, columns)
}

/// For `ROWS` rows of the result, the sums of multiples of the rows of `right`.
#[inline(always)]
fn sum_of_multiples<A: Element, const ROWS: usize>(factors: [&[A]; ROWS], right: &[A], sums: &mut [A]) {
    let columns = sums.len() / ROWS;
    let blocks = columns / ROW_BLOCK;
    for block in 0..blocks {
        let mut partial = [[A::zero(); ROW_BLOCK]; ROWS];
        for (term, row) in right[block * ROW_BLOCK..].chunks(columns).enumerate() {
            let row: &[A; ROW_BLOCK] = row.first_chunk().expect("there is a block in each row");
            for (sums, factors) in partial.iter_mut().zip(factors) {
                let factor = factors[term];
                for i in 0..ROW_BLOCK {
                    sums[i] = sums[i] + factor * row[i];
                }
            }
        }
        for (partial, to) in partial.iter().zip(sums.chunks_exact_mut(columns)) {
            to[block * ROW_BLOCK..][..ROW_BLOCK].copy_from_slice(partial);
        }
    }
    let from = blocks * ROW_BLOCK;
    for (factors, to) in factors.into_iter().zip(sums.chunks_exact_mut(columns)) {
        let rest = &mut to[from..];
        rest.fill(A::zero());
        for (&factor, row) in factors.iter().zip(right.chunks_exact(columns)) {
            for (sum, &x) in rest.iter_mut().zip(&row[from..]) {
                *sum = *sum + factor * x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn is_a_sum_of_products<A: Element>(rows: usize, columns: usize, terms: usize) {
        let left: Vec<Vec<A>> = (0..terms).map(|term| numbers(rows, term)).collect();
        let right: Vec<Vec<A>> = (0..terms).map(|term| numbers(columns, terms + term)).collect();
        let factors: Vec<(&[A], &[A])> = left.iter().zip(&right).map(|(a, b)| (&a[..], &b[..])).collect();
        let sum = sum_of_outer_products(&factors);
        assert_eq!(sum.len(), rows * columns);
        for (place, &sum) in sum.iter().enumerate() {
            let (row, column) = (place / columns, place % columns);
            let products = factors.iter().map(|(a, b)| a[row] * b[column]);
            let expected = products.fold(A::zero(), |sum, product| sum + product);
            assert!(is_same(sum, expected), "{rows}×{columns}, {terms} terms, element {row}, {column}");
        }
        // in pairs of rows, independent of the width of the registers
        let right: Vec<A> = right.concat();
        for pair in 0..rows / 2 {
            let [a, b] = [2 * pair, 2 * pair + 1].map(|row| left.iter().map(|column| column[row]).collect::<Vec<A>>());
            let mut sums: Vec<A> = numbers(2 * columns, 0);
            if columns > 0 {
                sum_of_multiples([&a, &b], &right, &mut sums);
            }
            let expected = &sum[2 * pair * columns..][..2 * columns];
            assert!(sums.iter().zip(expected).all(|(&sum, &expected)| is_same(sum, expected)), "{rows}×{columns}");
        }
    }

    #[test]
    fn sum_of_outer_products_has_bits_of_added_products() {
        for (rows, columns) in [(1, 1), (2, 63), (3, 64), (4, 65), (64, 192), (5, 200), (64, 5), (0, 7), (7, 0)] {
            for terms in [1, 2, 31] {
                is_a_sum_of_products::<f32>(rows, columns, terms);
                is_a_sum_of_products::<f64>(rows, columns, terms);
            }
        }
    }
}
