//! Long vectors. Sums are made of partial sums over parts of one length, in order, so that the bits
//! do not depend on the threads.

use dl_core::parallel;

const PART_LEN: usize = 1 << 14;
const NANOSECONDS: f64 = 0.5 * PART_LEN as f64;

/// The inner product.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut parts: Vec<_> = a.chunks(PART_LEN).zip(b.chunks(PART_LEN)).map(|pair| (pair, 0.0)).collect();
    parallel::for_each_mut(&mut parts, NANOSECONDS, |_, ((a, b), sum)| {
        *sum = a.iter().zip(*b).fold(0.0, |sum, (a, b)| sum + a * b);
    });
    parts.iter().fold(0.0, |sum, (_, part)| sum + part)
}

/// `a + factor · b`, in place.
pub(super) fn add_scaled(a: &mut [f64], factor: f64, b: &[f64]) {
    let mut parts: Vec<_> = a.chunks_mut(PART_LEN).zip(b.chunks(PART_LEN)).collect();
    parallel::for_each_mut(&mut parts, NANOSECONDS, |_, (a, b)| {
        a.iter_mut().zip(*b).for_each(|(a, b)| *a += factor * b);
    });
}

/// The largest absolute element.
pub(super) fn largest(vector: &[f64]) -> f64 {
    vector.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()))
}
