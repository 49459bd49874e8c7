//! Aligned buffers, the register-tiled matrix kernel, and vector functions.
pub(crate) use crate::vector::*;

/// Zeroed f32 buffer with a fixed address; shared between the threads of a team through raw
/// pointers.
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

pub(crate) type Acc<const MR: usize, const NV: usize> = [[V; NV]; MR];

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
                c[r][v] = fma(av, bv[v], c[r][v]);
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

/// rows 0..n in tiles of 6, then 4 (8 of them are 4 and 4), then 2
macro_rules! tiles {
    ($n:expr, $r:ident, $mr:ident, $body:block) => {{
        let (n, mut $r) = ($n, 0usize);
        while n - $r >= 6 && n - $r != 8 {
            const $mr: usize = 6;
            $body;
            $r += 6;
        }
        while n - $r >= 4 {
            const $mr: usize = 4;
            $body;
            $r += 4;
        }
        while n - $r >= 2 {
            const $mr: usize = 2;
            $body;
            $r += 2;
        }
    }};
}
pub(crate) use tiles;

#[inline(always)]
pub(crate) fn prefetch(p: *const f32) {
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast()) }
}

#[inline(always)]
pub(crate) fn relu(v: V) -> V {
    max(v, set(0.0))
}
/// 1/x: an estimate and one Newton step
#[inline(always)]
pub(crate) fn recip(x: V) -> V {
    let r = estimate_of_reciprocal(x);
    fma(r, fnma(x, r, set(1.0)), r)
}
/// e^x (Cephes polynomial)
#[inline(always)]
pub(crate) fn exp(x: V) -> V {
    let n = round(mul(x, set(std::f32::consts::LOG2_E)));
    let r = fnma(n, set(0.693359375), x);
    let r = fnma(n, set(-2.121_944_4e-4), r);
    let mut p = set(1.987_569_1e-4);
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.000_000_1e-1] {
        p = fma(p, r, set(c));
    }
    scale(fma(mul(r, r), p, add(r, set(1.0))), n)
}
/// tanh (rational 13/6, as in Eigen)
#[inline(always)]
pub(crate) fn tanh(x: V) -> V {
    let x = max(min(x, set(7.905_311)), set(-7.905_311));
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
#[inline(always)]
pub(crate) fn sigmoid(x: V) -> V {
    recip(add(set(1.0), exp(sub(set(0.0), x))))
}

/// Mean cross-entropy of one row-major row of at most 16 logits (pad ignored): returns the loss,
/// writes (softmax - onehot) * by to d, zero in the pad.
#[inline(always)]
pub(crate) unsafe fn ce_row(l: *const f32, n: usize, label: usize, by: f32, d: *mut f32) -> f32 {
    let m = (1u32 << n).wrapping_sub(1) as u16;
    let v = replace(set(f32::NEG_INFINITY), m, ld(l));
    let mx = hmax(v);
    let e = keep(m, exp(sub(v, set(mx))));
    let s = hsum(e);
    let p = mul(e, set(1.0 / s));
    let p = replace(p, 1 << label, sub(p, set(1.0)));
    st(d, mul(p, set(by)));
    s.ln() + mx - *l.add(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative to `f64`, between -6 and 6.
    #[test]
    fn exp_and_tanh_are_exact_to_a_few_units_in_the_last_place() {
        let each = |f: fn(V) -> V, exact: fn(f64) -> f64| {
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
