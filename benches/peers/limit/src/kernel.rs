//! Aligned buffers, the register-tile matrix kernel and f32 AVX-512 functions (needs target-cpu=native with avx512f/dq).
pub(crate) use std::arch::x86_64::*;

/// Zeroed f32 buffer that stays where it is; shared between the threads of a team through raw pointers.
pub(crate) struct Buf {
    ptr: *mut f32,
    pub(crate) len: usize,
}
unsafe impl Send for Buf {}
unsafe impl Sync for Buf {}
impl Buf {
    pub(crate) fn new(len: usize) -> Buf {
        let big = len * 4 >= 1 << 19;
        let layout = std::alloc::Layout::from_size_align(len * 4 + 128, if big { 2 << 20 } else { 64 }).unwrap();
        unsafe {
            let ptr = std::alloc::alloc(layout);
            if big {
                libc::madvise(ptr as *mut libc::c_void, len * 4, libc::MADV_HUGEPAGE);
            }
            std::ptr::write_bytes(ptr, 0, len * 4 + 128);
            Buf { ptr: ptr as *mut f32, len }
        }
    }
    pub(crate) fn of(v: &[f32]) -> Buf {
        let b = Buf::new(v.len());
        b.slice().copy_from_slice(v);
        b
    }
    /// rows of `n` values stored with row stride `ld`, the rest zero
    pub(crate) fn padded(v: &[f32], n: usize, ld: usize) -> Buf {
        let b = Buf::new(v.len() / n * ld);
        v.chunks(n).enumerate().for_each(|(i, r)| b.slice()[i * ld..i * ld + n].copy_from_slice(r));
        b
    }
    #[inline(always)]
    pub(crate) fn p(&self) -> *mut f32 {
        self.ptr
    }
    #[allow(clippy::mut_from_ref, reason = "nobody holds two of them at once")]
    pub(crate) fn slice(&self) -> &mut [f32] {
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

pub(crate) type Acc<const MR: usize, const NV: usize> = [[__m512; NV]; MR];

#[inline(always)]
pub(crate) fn ld(p: *const f32) -> __m512 {
    unsafe { _mm512_loadu_ps(p) }
}
#[inline(always)]
pub(crate) fn st(p: *mut f32, v: __m512) {
    unsafe { _mm512_storeu_ps(p, v) }
}
#[inline(always)]
pub(crate) fn set(v: f32) -> __m512 {
    unsafe { _mm512_set1_ps(v) }
}
#[inline(always)]
pub(crate) fn zero<const MR: usize, const NV: usize>() -> Acc<MR, NV> {
    [[set(0.0); NV]; MR]
}

/// acc[r][..] += sum over k of a[r*rsa + k*csa] * b[k*rsb ..]
#[inline(always)]
pub(crate) unsafe fn kern<const MR: usize, const NV: usize>(
    k: usize,
    mut a: *const f32,
    rsa: usize,
    csa: usize,
    mut b: *const f32,
    rsb: usize,
    acc: &mut Acc<MR, NV>,
) {
    let mut c = *acc;
    for _ in 0..k {
        let mut bv = [set(0.0); NV];
        for v in 0..NV {
            bv[v] = ld(b.add(16 * v));
        }
        for r in 0..MR {
            let av = set(*a.add(r * rsa));
            for v in 0..NV {
                c[r][v] = _mm512_fmadd_ps(av, bv[v], c[r][v]);
            }
        }
        a = a.add(csa);
        b = b.add(rsb);
    }
    *acc = c;
}

#[inline(always)]
pub(crate) unsafe fn load_tile<const MR: usize, const NV: usize>(c: *const f32, rsc: usize) -> Acc<MR, NV> {
    let mut t = zero::<MR, NV>();
    for r in 0..MR {
        for v in 0..NV {
            t[r][v] = ld(c.add(r * rsc + 16 * v));
        }
    }
    t
}
#[inline(always)]
pub(crate) unsafe fn store_tile<const MR: usize, const NV: usize>(c: *mut f32, rsc: usize, t: &Acc<MR, NV>) {
    for r in 0..MR {
        for v in 0..NV {
            st(c.add(r * rsc + 16 * v), t[r][v]);
        }
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
#[inline(always)]
pub(crate) unsafe fn transpose_regs(r: &mut [__m512; 16]) {
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

#[inline(always)]
pub(crate) fn relu(v: __m512) -> __m512 {
    unsafe { _mm512_max_ps(v, set(0.0)) }
}
/// g where z > 0, else 0
#[inline(always)]
pub(crate) fn mask_pos(g: __m512, z: __m512) -> __m512 {
    unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(z, set(0.0)), g) }
}
#[inline(always)]
pub(crate) fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
    unsafe { _mm512_fmadd_ps(a, b, c) }
}
#[inline(always)]
pub(crate) fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 {
    unsafe { _mm512_fnmadd_ps(a, b, c) }
}
#[inline(always)]
pub(crate) fn mul(a: __m512, b: __m512) -> __m512 {
    unsafe { _mm512_mul_ps(a, b) }
}
#[inline(always)]
pub(crate) fn add(a: __m512, b: __m512) -> __m512 {
    unsafe { _mm512_add_ps(a, b) }
}
#[inline(always)]
pub(crate) fn sub(a: __m512, b: __m512) -> __m512 {
    unsafe { _mm512_sub_ps(a, b) }
}
/// 1/x: 14-bit estimate and one Newton step
#[inline(always)]
pub(crate) fn recip(x: __m512) -> __m512 {
    unsafe {
        let r = _mm512_rcp14_ps(x);
        fma(r, fnma(x, r, set(1.0)), r)
    }
}
/// e^x (Cephes polynomial)
#[inline(always)]
pub(crate) fn exp(x: __m512) -> __m512 {
    unsafe {
        let n = _mm512_roundscale_ps::<8>(mul(x, set(std::f32::consts::LOG2_E)));
        let r = fnma(n, set(0.693359375), x);
        let r = fnma(n, set(-2.121_944_4e-4), r);
        let mut p = set(1.987_569_1e-4);
        for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.000_000_1e-1] {
            p = fma(p, r, set(c));
        }
        _mm512_scalef_ps(fma(mul(r, r), p, add(r, set(1.0))), n)
    }
}
/// tanh (rational 13/6, as in Eigen)
#[inline(always)]
pub(crate) fn tanh(x: __m512) -> __m512 {
    unsafe {
        let x = _mm512_max_ps(_mm512_min_ps(x, set(7.905_311)), set(-7.905_311));
        let y = mul(x, x);
        let mut p = set(-2.760_768_4e-16);
        for c in [2.000_188e-13, -8.604_671_5e-11, 5.122_297e-8, 1.485_722_4e-5, 6.372_619_3e-4, 4.893_524_6e-3] {
            p = fma(p, y, set(c));
        }
        let mut q = set(1.198_258_4e-6);
        for c in [1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3] {
            q = fma(q, y, set(c));
        }
        mul(mul(x, p), recip(q))
    }
}
#[inline(always)]
pub(crate) fn sigmoid(x: __m512) -> __m512 {
    recip(add(set(1.0), exp(sub(set(0.0), x))))
}
#[inline(always)]
pub(crate) fn hsum(v: __m512) -> f32 {
    unsafe { _mm512_reduce_add_ps(v) }
}

/// Mean cross-entropy of one row-major row of at most 16 logits (pad ignored): returns the loss, writes
/// (softmax - onehot) * scale to d, zero in the pad.
#[inline(always)]
pub(crate) unsafe fn ce_row(l: *const f32, n: usize, label: usize, scale: f32, d: *mut f32) -> f32 {
    let m: __mmask16 = (1u32 << n).wrapping_sub(1) as __mmask16;
    let v = _mm512_mask_mov_ps(set(f32::NEG_INFINITY), m, ld(l));
    let mx = _mm512_reduce_max_ps(v);
    let e = _mm512_maskz_mov_ps(m, exp(sub(v, set(mx))));
    let s = hsum(e);
    let p = _mm512_mask_sub_ps(mul(e, set(1.0 / s)), 1 << label, mul(e, set(1.0 / s)), set(1.0));
    st(d, mul(p, set(scale)));
    s.ln() + mx - *l.add(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative to `f64`, between -6 and 6.
    #[test]
    fn exp_and_tanh_are_exact_to_a_few_units_in_the_last_place() {
        let each = |f: fn(__m512) -> __m512, exact: fn(f64) -> f64| {
            let mut worst = 0f64;
            for i in 0..25_000u32 {
                let x: [f32; 16] = std::array::from_fn(|j| -6.0 + (16 * i + j as u32) as f32 * 3e-5);
                let mut y = [0f32; 16];
                st(y.as_mut_ptr(), f(ld(x.as_ptr())));
                for (x, y) in x.into_iter().zip(y).filter(|(x, _)| *x != 0.0) {
                    worst = worst.max((f64::from(y) / exact(x.into()) - 1.0).abs());
                }
            }
            worst
        };
        assert!(each(exp, f64::exp) < 8e-7 && each(tanh, f64::tanh) < 5e-7);
    }
}
