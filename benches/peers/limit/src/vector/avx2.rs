//! Registers of 256 bits, sixteen of them: a vector is two.
use std::arch::x86_64::*;

/// Tile width in vectors for tiles of six or four rows.
pub(crate) const WIDE_OF_6: usize = 1;
/// Tile width in vectors for tiles of two rows.
pub(crate) const WIDE_OF_2: usize = 2;
/// Tile width in vectors for tiles of one row.
pub(crate) const WIDE_OF_1: usize = 6;
/// Rows and vectors of a tile for matrices with many rows.
pub(crate) const ROWS: usize = 4;
pub(crate) const WIDE_OF_ROWS: usize = 1;
/// Rows of a tile of one vector.
pub(crate) const TALL: usize = 4;
/// Rows of a tile of one vector, for matrices with twenty rows.
pub(crate) const TALL_OF_20: usize = 5;
/// Rows of a tile of two vectors, for matrices with nine rows.
pub(crate) const ROWS_OF_9: usize = 3;

#[derive(Clone, Copy)]
pub(crate) struct V(__m256, __m256);

macro_rules! halves {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) = $half:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name($($x: V),*) -> V {
            unsafe { V(($half)($($x.0),*), ($half)($($x.1),*)) }
        }
    )*};
}
halves! {
    fma(a, b, c) = _mm256_fmadd_ps;
    fnma(a, b, c) = _mm256_fnmadd_ps;
    mul(a, b) = _mm256_mul_ps;
    add(a, b) = _mm256_add_ps;
    sub(a, b) = _mm256_sub_ps;
    max(a, b) = _mm256_max_ps;
    min(a, b) = _mm256_min_ps;
    /// to the nearest whole number
    round(x) = _mm256_round_ps::<8>;
    /// x · 2ⁿ, n whole and at most 127; 0 where 2ⁿ is less than a normal number
    scale(x, n) = |x, n| {
        let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_max_ps(n, _mm256_set1_ps(-127.0))), _mm256_set1_epi32(127));
        _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
    };
    /// 1/x to 12 bits
    estimate_of_reciprocal(x) = _mm256_rcp_ps;
    /// g where z > 0, else 0
    mask_pos(g, z) = |g, z| _mm256_and_ps(g, _mm256_cmp_ps::<_CMP_GT_OQ>(z, _mm256_setzero_ps()));
}

#[inline(always)]
pub(crate) fn ld(p: *const f32) -> V {
    unsafe { V(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
}
#[inline(always)]
pub(crate) fn st(p: *mut f32, v: V) {
    unsafe {
        _mm256_storeu_ps(p, v.0);
        _mm256_storeu_ps(p.add(8), v.1);
    }
}
#[inline(always)]
pub(crate) fn set(v: f32) -> V {
    unsafe { V(_mm256_set1_ps(v), _mm256_set1_ps(v)) }
}

#[inline(always)]
fn reduce(v: V, f: impl Fn(__m256, __m256) -> __m256) -> f32 {
    unsafe {
        let v = f(v.0, v.1);
        let v = f(v, _mm256_permute2f128_ps::<1>(v, v));
        let v = f(v, _mm256_permute_ps::<0b01_00_11_10>(v));
        _mm256_cvtss_f32(f(v, _mm256_permute_ps::<0b10_11_00_01>(v)))
    }
}
#[inline(always)]
pub(crate) fn hsum(v: V) -> f32 {
    reduce(v, |a, b| unsafe { _mm256_add_ps(a, b) })
}
#[inline(always)]
pub(crate) fn hproduct(v: V) -> f32 {
    reduce(v, |a, b| unsafe { _mm256_mul_ps(a, b) })
}
#[inline(always)]
pub(crate) fn hmax(v: V) -> f32 {
    reduce(v, |a, b| unsafe { _mm256_max_ps(a, b) })
}

#[inline(always)]
fn bits(low: __m256, high: __m256) -> u16 {
    unsafe { (_mm256_movemask_ps(low) | _mm256_movemask_ps(high) << 8) as u16 }
}
/// a bit for each lane in which v is above zero
#[inline(always)]
pub(crate) fn positive(v: V) -> u16 {
    unsafe {
        let zero = _mm256_setzero_ps();
        bits(_mm256_cmp_ps::<_CMP_GT_OQ>(v.0, zero), _mm256_cmp_ps::<_CMP_GT_OQ>(v.1, zero))
    }
}
#[inline(always)]
pub(crate) fn equal(a: V, b: V) -> u16 {
    unsafe { bits(_mm256_cmp_ps::<_CMP_EQ_OQ>(a.0, b.0), _mm256_cmp_ps::<_CMP_EQ_OQ>(a.1, b.1)) }
}
/// all bits of the lanes of a mask
#[inline(always)]
fn lanes(mask: u16) -> [__m256; 2] {
    unsafe {
        let mask = _mm256_set1_epi32(mask.into());
        [
            _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128),
            _mm256_setr_epi32(1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15),
        ]
        .map(|bits| _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(mask, bits), bits)))
    }
}
/// v in the lanes of the mask, 0 in the others
#[inline(always)]
pub(crate) fn keep(mask: u16, v: V) -> V {
    let [low, high] = lanes(mask);
    unsafe { V(_mm256_and_ps(low, v.0), _mm256_and_ps(high, v.1)) }
}
/// new in the lanes of the mask, old in the others
#[inline(always)]
pub(crate) fn replace(old: V, mask: u16, new: V) -> V {
    let [low, high] = lanes(mask);
    unsafe { V(_mm256_blendv_ps(old.0, new.0, low), _mm256_blendv_ps(old.1, new.1, high)) }
}

#[inline(always)]
pub(crate) unsafe fn transpose_regs(r: &mut [V; 16]) {
    let a = transpose_eight(std::array::from_fn(|i| r[i].0));
    let b = transpose_eight(std::array::from_fn(|i| r[i].1));
    let c = transpose_eight(std::array::from_fn(|i| r[8 + i].0));
    let d = transpose_eight(std::array::from_fn(|i| r[8 + i].1));
    for i in 0..8 {
        r[i] = V(a[i], c[i]);
        r[8 + i] = V(b[i], d[i]);
    }
}
#[inline(always)]
unsafe fn transpose_eight(r: [__m256; 8]) -> [__m256; 8] {
    let mut t = r;
    for i in 0..4 {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    let mut u = t;
    for i in 0..2 {
        let q = 4 * i;
        u[q] = _mm256_shuffle_ps::<0b01_00_01_00>(t[q], t[q + 2]);
        u[q + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(t[q], t[q + 2]);
        u[q + 2] = _mm256_shuffle_ps::<0b01_00_01_00>(t[q + 1], t[q + 3]);
        u[q + 3] = _mm256_shuffle_ps::<0b11_10_11_10>(t[q + 1], t[q + 3]);
    }
    for i in 0..4 {
        t[i] = _mm256_permute2f128_ps::<0x20>(u[i], u[4 + i]);
        t[4 + i] = _mm256_permute2f128_ps::<0x31>(u[i], u[4 + i]);
    }
    t
}

/// 16x16 transpose, a quarter at a time: all of it is more than there are registers
#[inline(always)]
pub(crate) unsafe fn transpose(src: *const f32, lds: usize, dst: *mut f32, ldd: usize) {
    for row in [0, 8] {
        for column in [0, 8] {
            let quarter = std::array::from_fn(|i| _mm256_loadu_ps(src.add((row + i) * lds + column)));
            for (i, turned) in transpose_eight(quarter).into_iter().enumerate() {
                _mm256_storeu_ps(dst.add((column + i) * ldd + row), turned);
            }
        }
    }
}
/// the sum of each vector
#[inline(always)]
pub(crate) unsafe fn sums(v: [V; 16]) -> V {
    let eight = |v: &[V]| {
        let turned = transpose_eight(std::array::from_fn(|i| _mm256_add_ps(v[i].0, v[i].1)));
        turned.into_iter().reduce(|a, b| _mm256_add_ps(a, b)).unwrap()
    };
    V(eight(&v[..8]), eight(&v[8..]))
}
