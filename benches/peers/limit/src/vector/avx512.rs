//! Registers of 512 bits, thirty-two of them.
use std::arch::x86_64::*;

/// Tile width in vectors for tiles of six or four rows.
pub(crate) const WIDE_OF_6: usize = 4;
/// Tile width in vectors for tiles of two rows.
pub(crate) const WIDE_OF_2: usize = 4;
/// Tile width in vectors for tiles of one row.
pub(crate) const WIDE_OF_1: usize = 12;
/// Rows and vectors of a tile for matrices with many rows.
pub(crate) const ROWS: usize = 8;
pub(crate) const WIDE_OF_ROWS: usize = 2;
/// Rows of a tile of one vector.
pub(crate) const TALL: usize = 16;
/// Rows of a tile of one vector, for matrices with twenty rows.
pub(crate) const TALL_OF_20: usize = 10;
/// Rows of a tile of two vectors, for matrices with nine rows.
pub(crate) const ROWS_OF_9: usize = 9;

pub(crate) type V = __m512;

macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident($($x:ident: $T:ty),*) -> $R:ty = $value:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name($($x: $T),*) -> $R {
            unsafe { $value }
        }
    )*};
}
instructions! {
    ld(p: *const f32) -> V = _mm512_loadu_ps(p);
    st(p: *mut f32, v: V) -> () = _mm512_storeu_ps(p, v);
    set(v: f32) -> V = _mm512_set1_ps(v);
    fma(a: V, b: V, c: V) -> V = _mm512_fmadd_ps(a, b, c);
    fnma(a: V, b: V, c: V) -> V = _mm512_fnmadd_ps(a, b, c);
    mul(a: V, b: V) -> V = _mm512_mul_ps(a, b);
    add(a: V, b: V) -> V = _mm512_add_ps(a, b);
    sub(a: V, b: V) -> V = _mm512_sub_ps(a, b);
    max(a: V, b: V) -> V = _mm512_max_ps(a, b);
    min(a: V, b: V) -> V = _mm512_min_ps(a, b);
    /// to the nearest whole number
    round(x: V) -> V = _mm512_roundscale_ps::<8>(x);
    /// x · 2ⁿ, n whole
    scale(x: V, n: V) -> V = _mm512_scalef_ps(x, n);
    /// 1/x to 14 bits
    estimate_of_reciprocal(x: V) -> V = _mm512_rcp14_ps(x);
    hsum(v: V) -> f32 = _mm512_reduce_add_ps(v);
    hproduct(v: V) -> f32 = _mm512_reduce_mul_ps(v);
    hmax(v: V) -> f32 = _mm512_reduce_max_ps(v);
    /// a bit for each lane in which v is above zero
    positive(v: V) -> u16 = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(v, set(0.0));
    equal(a: V, b: V) -> u16 = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
    /// v in the lanes of the mask, 0 in the others
    keep(mask: u16, v: V) -> V = _mm512_maskz_mov_ps(mask, v);
    /// new in the lanes of the mask, old in the others
    replace(old: V, mask: u16, new: V) -> V = _mm512_mask_mov_ps(old, mask, new);
    /// g where z > 0, else 0
    mask_pos(g: V, z: V) -> V = keep(positive(z), g);
}

#[inline(always)]
pub(crate) unsafe fn transpose_regs(r: &mut [V; 16]) {
    let mut t = [set(0.0); 16];
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    let d = |v| _mm512_castps_pd(v);
    let s = |v| _mm512_castpd_ps(v);
    let mut u = [set(0.0); 16];
    for i in 0..4 {
        let q = 4 * i;
        u[q] = s(_mm512_unpacklo_pd(d(t[q]), d(t[q + 2])));
        u[q + 1] = s(_mm512_unpackhi_pd(d(t[q]), d(t[q + 2])));
        u[q + 2] = s(_mm512_unpacklo_pd(d(t[q + 1]), d(t[q + 3])));
        u[q + 3] = s(_mm512_unpackhi_pd(d(t[q + 1]), d(t[q + 3])));
    }
    for i in 0..4 {
        let a = _mm512_shuffle_f32x4::<0x88>(u[i], u[4 + i]);
        let b = _mm512_shuffle_f32x4::<0xdd>(u[i], u[4 + i]);
        let c = _mm512_shuffle_f32x4::<0x88>(u[8 + i], u[12 + i]);
        let e = _mm512_shuffle_f32x4::<0xdd>(u[8 + i], u[12 + i]);
        r[i] = _mm512_shuffle_f32x4::<0x88>(a, c);
        r[8 + i] = _mm512_shuffle_f32x4::<0xdd>(a, c);
        r[4 + i] = _mm512_shuffle_f32x4::<0x88>(b, e);
        r[12 + i] = _mm512_shuffle_f32x4::<0xdd>(b, e);
    }
}

/// 16x16 transpose
#[inline(always)]
pub(crate) unsafe fn transpose(src: *const f32, lds: usize, dst: *mut f32, ldd: usize) {
    let mut r = [set(0.0); 16];
    for i in 0..16 {
        r[i] = ld(src.add(i * lds));
    }
    transpose_regs(&mut r);
    for i in 0..16 {
        st(dst.add(i * ldd), r[i]);
    }
}
/// the sum of each vector
#[inline(always)]
pub(crate) unsafe fn sums(mut v: [V; 16]) -> V {
    transpose_regs(&mut v);
    for w in [8, 4, 2, 1] {
        for r in 0..w {
            v[r] = add(v[r], v[r + w]);
        }
    }
    v[0]
}
