//! Sums of outer products.

use super::{Multiply, in_parts, nanoseconds};
use dl_core::buffers;
use dl_core::simd::vectorized;

/// So many numbers of a row of the result stay in registers while the terms are added up.
const BLOCK: usize = 64;

/// The sum of the outer products of such columns and rows, from the first to the last, in row-major order: to the bit what it is if each is a [product](super::product) that is added to
/// those before.
///
/// # Panics
/// If the columns, or the rows, are not all of the same length.
pub(crate) fn sum_of_outer<A: Multiply>(factors: &[(&[A], &[A])]) -> Vec<A> {
    let Some((rows, columns)) = factors.first().map(|(column, row)| (column.len(), row.len())) else {
        return Vec::new();
    };
    assert!(factors.iter().all(|(column, row)| (column.len(), row.len()) == (rows, columns)), "they have one shape");
    // what belongs to a row of the result lies side by side
    let (mut left, mut right) = (buffers::take(factors.len() * rows), buffers::take(factors.len() * columns));
    (0..rows).for_each(|row| left.extend(factors.iter().map(|(column, _)| column[row])));
    factors.iter().for_each(|(_, row)| right.extend_from_slice(row));
    let each = nanoseconds::<A>(1, factors.len(), columns);
    let sum = in_parts(rows * columns, columns, each, |row, sums| {
        let factors = &left[row * factors.len()..][..factors.len()];
        vectorized(
            #[inline(always)]
            || sum_of_multiples(factors, &right, sums),
        );
    });
    [left, right].into_iter().for_each(buffers::give_back);
    sum
}

/// The sum of such multiples of some rows, which come one after the other.
#[inline(always)]
fn sum_of_multiples<A: Multiply>(factors: &[A], rows: &[A], sums: &mut [A]) {
    let columns = sums.len();
    let (blocks, rest) = sums.as_chunks_mut::<BLOCK>();
    for (block, to) in blocks.iter_mut().enumerate() {
        let mut sums = [A::zero(); BLOCK];
        for (&factor, row) in factors.iter().zip(rows[block * BLOCK..].chunks(columns)) {
            let row: &[A; BLOCK] = row.first_chunk().expect("there is a block in each row");
            for i in 0..BLOCK {
                sums[i] = sums[i] + factor * row[i];
            }
        }
        *to = sums;
    }
    let from = columns - rest.len();
    rest.fill(A::zero());
    for (&factor, row) in factors.iter().zip(rows.chunks_exact(columns)) {
        for (sum, &x) in rest.iter_mut().zip(&row[from..]) {
            *sum = *sum + factor * x;
        }
    }
}
