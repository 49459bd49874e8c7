//! The inner products of contiguous vectors, for matrix-vector products.

use super::simd::SimdVector;
use crate::tensor::Element;
use std::mem::MaybeUninit;

/// The number of registers of accumulators.
pub(super) const WIDE: usize = 4;
/// The largest number of lanes.
pub(super) const MOST_LANES: usize = 16;

/// `Σᵢ xᵢ·yᵢ` in the lanes of a register: the accumulators are added in pairs.
///
/// # Safety
/// `len` numbers of both vectors must be readable.
#[inline(always)]
unsafe fn sums_in_lanes<L: SimdVector<Number = A>, A: Element>(x: *const A, y: *const A, len: usize) -> L {
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
    let [a, b, c, d] = sums;
    a.add(c).add(b.add(d))
}

/// `Σᵢ xᵢ·yᵢ`
///
/// # Safety
/// `len` numbers of both vectors must be readable.
#[inline(always)]
pub(super) unsafe fn dot<L: SimdVector<Number = A>, A: Element>(x: *const A, y: *const A, len: usize) -> A {
    let mut lanes = [A::zero(); MOST_LANES];
    // SAFETY: guaranteed by the caller; a register has at most 16 lanes
    unsafe { sums_in_lanes::<L, A>(x, y, len).store(lanes.as_mut_ptr()) };
    let mut half = L::N / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = lanes[i] + lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The inner products of as many rows as a register has lanes with one vector, with the bits of
/// [`dot`]. The lanes are added for all rows at once, in columns of a transposed square.
///
/// # Safety
/// `len` numbers of each row and of the vector must be readable, and `L::N` numbers writable.
#[inline(always)]
pub(super) unsafe fn dots<L: SimdVector<Number = A>, A: Element>(
    (rows, stride): (*const A, isize),
    y: *const A,
    len: usize,
    to: *mut A,
) {
    let mut squares = [const { MaybeUninit::<[A; MOST_LANES * MOST_LANES]>::uninit() }; 2];
    let [by_row, by_lane] = &mut squares;
    let (by_row, by_lane) = (by_row.as_mut_ptr().cast::<A>(), by_lane.as_mut_ptr().cast::<A>());
    for row in 0..L::N {
        // SAFETY: guaranteed by the caller; the square has room for each row
        unsafe {
            let sums = sums_in_lanes::<L, A>(rows.offset(row as isize * stride), y, len);
            sums.store(by_row.add(row * L::N));
        }
    }
    // SAFETY: both squares have `L::N` rows of as many numbers
    unsafe { transpose_square::<L, A>(by_row, by_lane) };
    let mut half = L::N / 2;
    while half > 0 {
        for lane in 0..half {
            // SAFETY: the square has `L::N` rows of as many numbers
            unsafe {
                let sum = L::load(by_lane.add(lane * L::N)).add(L::load(by_lane.add((lane + half) * L::N)));
                sum.store(by_lane.add(lane * L::N));
            }
        }
        half /= 2;
    }
    // SAFETY: guaranteed by the caller
    unsafe { L::load(by_lane).store(to) };
}

/// # Safety
/// `L::N` rows of as many numbers must be readable or writable.
#[inline(always)]
unsafe fn transpose_square<L: SimdVector<Number = A>, A: Element>(from: *const A, to: *mut A) {
    let block = L::TRANSPOSE_BLOCK;
    if L::N < block {
        for (row, column) in (0..L::N).flat_map(|row| (0..L::N).map(move |column| (row, column))) {
            // SAFETY: guaranteed by the caller
            unsafe { *to.add(column * L::N + row) = *from.add(row * L::N + column) };
        }
        return;
    }
    let mut row = 0;
    while row < L::N {
        let mut column = 0;
        while column < L::N {
            // SAFETY: guaranteed by the caller for this block
            unsafe {
                let (from, to) = (from.add(row * L::N + column), to.add(column * L::N + row));
                L::transpose(from, L::N as isize, to, L::N as isize);
            }
            column += block;
        }
        row += block;
    }
}
