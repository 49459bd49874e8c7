//! The inner product of contiguous vectors, for matrix-vector products.

use super::simd::SimdVector;
use crate::tensor::Element;

/// The number of registers of accumulators.
pub(super) const WIDE: usize = 4;

/// `Σᵢ xᵢ·yᵢ`
///
/// # Safety
/// `len` numbers of both vectors must be readable.
#[inline(always)]
pub(super) unsafe fn dot<L: SimdVector<Number = A>, A: Element>(x: *const A, y: *const A, len: usize) -> A {
    let mut sums = [L::splat(A::zero()); WIDE];
    let mut at = 0;
    while at + WIDE * L::N <= len {
        for (i, sum) in sums.iter_mut().enumerate() {
            let offset = at + i * L::N;
            // SAFETY: this many numbers are left
            *sum = unsafe { L::load(x.add(offset)).multiply_add(L::load(y.add(offset)), *sum) };
        }
        at += WIDE * L::N;
    }
    let mut i = 0;
    while at < len {
        let count = (len - at).min(L::N);
        // SAFETY: this many numbers are left
        sums[i] = unsafe { L::load_some(x.add(at), count).multiply_add(L::load_some(y.add(at), count), sums[i]) };
        at += count;
        i += 1;
    }
    let mut lanes = [A::zero(); WIDE * 16];
    for (i, sum) in sums.into_iter().enumerate() {
        // SAFETY: a register has at most 16 lanes
        unsafe { sum.store(lanes.as_mut_ptr().add(i * L::N)) };
    }
    let mut half = WIDE * L::N / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = lanes[i] + lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}
