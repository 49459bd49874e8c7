//! Matrices with orthonormal rows or columns.

use super::normal::standard_normal;
use rand::Rng;

/// `count` orthonormal vectors of `length` elements each, concatenated; `count ≤ length` must hold.
///
/// Normal random vectors, orthogonalized one after the other by the Gram-Schmidt process. The
/// result is the factor Q of the QR decomposition of a normal random matrix for which R has a
/// positive diagonal, which is uniformly distributed. Projections are subtracted twice, which
/// reduces the error to rounding (Giraud et al., *The loss of orthogonality in the Gram-Schmidt
/// orthogonalization process*, 2005).
pub(super) fn orthonormal(count: usize, length: usize, rng: &mut impl Rng) -> Vec<f64> {
    let mut vectors: Vec<f64> = Vec::with_capacity(count * length);
    while vectors.len() < count * length {
        let mut vector: Vec<f64> = (0..length).map(|_| standard_normal(rng)).collect();
        let before = norm(&vector);
        for _ in 0..2 {
            for other in vectors.chunks_exact(length) {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let norm = norm(&vector);
        // a vector that is almost linearly dependent on the others is drawn again
        if norm > 1e-8 * before {
            vectors.extend(vector.iter().map(|x| x / norm));
        }
    }
    vectors
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}
