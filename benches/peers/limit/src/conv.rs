//! Direct convolution in padded NHWC with register tiles of [`ROWS`] pixels x [`WIDE_OF_ROWS`]
//! vectors of channels; bias, ReLU and pooling fused; images are split over the threads, kernel
//! gradients are summed per thread.
use crate::{kernel::*, team::Team};
use common::{Bench, Numbers};

const LR: f32 = 0.01;
const PS: usize = 4096 + 16;

/// max of four with the masks of the first maximum, restricted to max + bias > 0
#[inline(always)]
unsafe fn pool(v: [V; 4], b: V, masks: *mut u16) -> V {
    let m = max(max(v[0], v[1]), max(v[2], v[3]));
    let y = add(m, b);
    let mut left = positive(y);
    for j in 0..4 {
        let k = left & equal(v[j], m);
        *masks.add(j) = k;
        left &= !k;
    }
    relu(y)
}

/// Convolution of one padded image, pooled. S: output side, CI: input channels, one block of 32
/// output channels with kernel k[9*CI x 32]; result row stride/offset through out(y, x) -> pointer.
#[inline(always)]
unsafe fn conv_pool<const S: usize, const CI: usize>(
    x: *const f32,
    k: *const f32,
    b: *const f32,
    tmp: *mut f32,
    masks: *mut u16,
    mstride: usize,
    out: impl Fn(usize, usize) -> *mut f32,
) {
    let row = (S + 2) * CI;
    for y in 0..S / 2 {
        for r in 0..2 {
            for px in (0..S).step_by(ROWS) {
                for o in (0..32).step_by(16 * WIDE_OF_ROWS) {
                    let mut t = zero::<ROWS, WIDE_OF_ROWS>();
                    for kh in 0..3 {
                        let x = x.add((2 * y + r + kh) * row + px * CI);
                        kern::<ROWS, WIDE_OF_ROWS>(3 * CI, x, CI, 1, k.add(kh * 3 * CI * 32 + o), 32, &mut t);
                    }
                    store_tile(tmp.add((r * S + px) * 32 + o), 32, &t);
                }
            }
        }
        for px in 0..S / 2 {
            for v in 0..2 {
                let p = tmp.add(2 * px * 32 + 16 * v);
                let q = [ld(p), ld(p.add(32)), ld(p.add(S * 32)), ld(p.add(S * 32 + 32))];
                let y1 = pool(q, ld(b.add(16 * v)), masks.add((y * (S / 2) + px) * mstride + 4 * v));
                st(out(y, px).add(16 * v), y1);
            }
        }
    }
}

struct Weights {
    k1: Buf, // [3][9][32]
    b1: Buf,
    k2: Buf,  // [3][96][64]
    k2p: Buf, // [2][288][32]
    k2f: Buf, // flipped, [3][3*64][32]
    b2: Buf,
    wd: Buf, // [4096][16], rows y, x, channel
    wdt: Buf,
    bd: Buf,
}
impl Weights {
    /// the two other layouts of k2
    unsafe fn derive(&self) {
        let (k, p, f) = (self.k2.p(), self.k2p.p(), self.k2f.p());
        for r in 0..288 {
            for v in 0..4 {
                st(p.add((v / 2 * 288 + r) * 32 + v % 2 * 16), ld(k.add(r * 64 + 16 * v)));
            }
        }
        for t in 0..9 {
            for ci in (0..32).step_by(16) {
                for co in (0..64).step_by(16) {
                    transpose(k.add((t * 32 + ci) * 64 + co), 64, f.add(((8 - t) * 64 + co) * 32 + ci), 32);
                }
            }
        }
    }
}

/// per-image state
struct Img {
    x: Buf,
    p1: Buf,
    m1: Vec<u16>,
    m2: Vec<u16>,
}
/// per-thread scratch and gradients
struct Scr {
    tmp: Buf,
    da2: Buf,
    dp1: Buf,
    da1: Buf,
    g1: Buf,
    g2: Buf,
    gb1: Buf,
    gb2: Buf,
}

#[inline(never)]
unsafe fn forward(w: &Weights, im: &Img, src: *const f32, p2: *mut f32, s: &Scr) {
    for y in 0..32 {
        std::ptr::copy_nonoverlapping(src.add(y * 96), im.x.p().add(((y + 1) * 34 + 1) * 3), 96);
    }
    let p1 = im.p1.p();
    conv_pool::<32, 3>(im.x.p(), w.k1.p(), w.b1.p(), s.tmp.p(), im.m1.as_ptr() as *mut u16, 8, |y, x| {
        p1.add(((y + 1) * 18 + x + 1) * 32)
    });
    for h in 0..2 {
        conv_pool::<16, 32>(
            p1,
            w.k2p.p().add(h * 288 * 32),
            w.b2.p().add(32 * h),
            s.tmp.p(),
            (im.m2.as_ptr() as *mut u16).add(8 * h),
            16,
            |y, x| p2.add((y * 8 + x) * 64 + 32 * h),
        );
    }
}

#[inline(never)]
unsafe fn backward(w: &Weights, im: &Img, dp2: *const f32, s: &Scr) {
    // pool 2 -> da2 (padded 18x18x64, border stays zero)
    for y in 0..8 {
        for x in 0..8 {
            for v in 0..4 {
                let g = ld(dp2.add((y * 8 + x) * 64 + 16 * v));
                let m = im.m2.as_ptr().add((y * 8 + x) * 16 + 4 * v);
                let mut any = 0;
                for j in 0..4 {
                    let at = ((2 * y + j / 2 + 1) * 18 + 2 * x + j % 2 + 1) * 64 + 16 * v;
                    any |= *m.add(j);
                    st(s.da2.p().add(at), keep(*m.add(j), g));
                }
                let b = s.gb2.p().add(16 * v);
                st(b, add(ld(b), keep(any, g)));
            }
        }
    }
    // dp1: correlation with the flipped kernel, one kernel row (24 KB) at a time
    for kh in 0..3 {
        for y in 0..16 {
            for px in (0..16).step_by(ROWS) {
                for o in (0..32).step_by(16 * WIDE_OF_ROWS) {
                    let c = s.dp1.p().add((y * 16 + px) * 32 + o);
                    let mut t =
                        if kh == 0 { zero::<ROWS, WIDE_OF_ROWS>() } else { load_tile::<ROWS, WIDE_OF_ROWS>(c, 32) };
                    let (d, k) = (s.da2.p().add(((y + kh) * 18 + px) * 64), w.k2f.p().add(kh * 192 * 32 + o));
                    kern::<ROWS, WIDE_OF_ROWS>(192, d, 64, 1, k, 32, &mut t);
                    store_tile(c, 32, &t);
                }
            }
        }
    }
    // gradient of k2 in blocks of four rows
    for yb in (0..16).step_by(4) {
        for kh in 0..3 {
            for r in (0..96).step_by(6) {
                for o in (0..64).step_by(16 * WIDE_OF_6) {
                    let c = s.g2.p().add((kh * 96 + r) * 64 + o);
                    let mut t = load_tile::<6, WIDE_OF_6>(c, 64);
                    for y in yb..yb + 4 {
                        let x = im.p1.p().add((y + kh) * 18 * 32 + r);
                        let d = s.da2.p().add(((y + 1) * 18 + 1) * 64 + o);
                        kern::<6, WIDE_OF_6>(16, x, 1, 32, d, 64, &mut t);
                    }
                    store_tile(c, 64, &t);
                }
            }
        }
    }
    // pool 1 and gradient of k1, two rows at a time
    for y in 0..16 {
        for x in 0..16 {
            for v in 0..2 {
                let g = ld(s.dp1.p().add((y * 16 + x) * 32 + 16 * v));
                let m = im.m1.as_ptr().add((y * 16 + x) * 8 + 4 * v);
                let mut any = 0;
                for j in 0..4 {
                    any |= *m.add(j);
                    st(s.da1.p().add((j / 2 * 32 + 2 * x + j % 2) * 32 + 16 * v), keep(*m.add(j), g));
                }
                let b = s.gb1.p().add(16 * v);
                st(b, add(ld(b), keep(any, g)));
            }
        }
        for kh in 0..3 {
            for i in (0..9).step_by(ROWS_OF_9) {
                let c = s.g1.p().add((kh * 9 + i) * 32);
                let mut t = load_tile::<ROWS_OF_9, 2>(c, 32);
                for r in 0..2 {
                    let (x, d) = (im.x.p().add((2 * y + r + kh) * 34 * 3 + i), s.da1.p().add(r * 32 * 32));
                    kern::<ROWS_OF_9, 2>(32, x, 1, 3, d, 32, &mut t);
                }
                store_tile(c, 32, &t);
            }
        }
    }
}

pub(crate) fn w6(bench: &mut Bench, team: &Team) {
    let mut g = Numbers::new(6);
    let nt = team.n;
    let xs: Vec<Buf> = (0..4)
        .map(|_| {
            let v = g.uniform(32 * 3 * 1024, 1.0);
            let b = Buf::new(v.len());
            for n in 0..32 {
                (0..3).for_each(|c| {
                    (0..1024).for_each(|p| b.slice()[(n * 1024 + p) * 3 + c] = v[(n * 3 + c) * 1024 + p])
                });
            }
            b
        })
        .collect();
    let (v1, v2) = (g.uniform(32 * 27, 1.0 / 27f32.sqrt()), g.uniform(64 * 288, 1.0 / 288f32.sqrt()));
    let vd = g.weight(4096, 10);
    let z = Buf::new;
    let w = Weights {
        k1: z(27 * 32),
        b1: z(32),
        k2: z(288 * 64),
        k2p: z(288 * 64),
        k2f: z(288 * 64),
        b2: z(64),
        wd: z(4096 * 16),
        wdt: z(16 * 4096),
        bd: z(16),
    };
    for t in 0..9 {
        (0..3).for_each(|i| (0..32).for_each(|o| w.k1.slice()[(t * 3 + i) * 32 + o] = v1[(o * 3 + i) * 9 + t]));
        (0..32).for_each(|i| (0..64).for_each(|o| w.k2.slice()[(t * 32 + i) * 64 + o] = v2[(o * 32 + i) * 9 + t]));
    }
    for c in 0..64 {
        for p in 0..64 {
            w.wd.slice()[(p * 64 + c) * 16..][..10].copy_from_slice(&vd[(c * 64 + p) * 10..][..10]);
        }
    }
    unsafe { w.derive() };
    let imgs: Vec<Img> = (0..32)
        .map(|_| Img { x: z(34 * 34 * 3 + 64), p1: z(18 * 18 * 32), m1: vec![0; 256 * 8], m2: vec![0; 64 * 16] })
        .collect();
    let scr: Vec<Scr> = (0..nt)
        .map(|_| Scr {
            tmp: z(2 * 32 * 32),
            da2: z(18 * 18 * 64),
            dp1: z(256 * 32),
            da1: z(2 * 32 * 32),
            g1: z(27 * 32),
            g2: z(288 * 64),
            gb1: z(32),
            gb2: z(64),
        })
        .collect();
    let (p2, dp2, l, d, losses) = (z(32 * PS), z(32 * PS), z(32 * 16), z(32 * 16), z(64));
    let mut it = 0;
    bench.training("w6", "conv", || {
        let xb = &xs[it % 4];
        it += 1;
        team.run(&|t| unsafe {
            let s = &scr[t];
            for b in [&s.g1, &s.g2, &s.gb1, &s.gb2] {
                b.slice().fill(0.0);
            }
            let (n0, n1) = (32 / nt * t, 32 / nt * (t + 1));
            let (r0, r1) = (4096 / nt * t, 4096 / nt * (t + 1));
            for i in (r0..r1).step_by(16) {
                transpose(w.wd.p().add(i * 16), 16, w.wdt.p().add(i), 4096);
            }
            for n in n0..n1 {
                forward(&w, &imgs[n], xb.p().add(n * 3072), p2.p().add(n * PS), s);
            }
            let mut loss = 0.0;
            for n in (n0..n1).step_by(ROWS) {
                let mut c = [[ld(w.bd.p())]; ROWS];
                kern::<ROWS, 1>(4096, p2.p().add(n * PS), PS, 1, w.wd.p(), 16, &mut c);
                store_tile(l.p().add(n * 16), 16, &c);
                for q in n..n + ROWS {
                    loss += ce_row(l.p().add(q * 16), 10, q * 7 % 10, 1.0 / 32.0, d.p().add(q * 16)) as f64;
                }
            }
            *losses.p().add(16 * t) = (loss / 32.0) as f32;
            team.barrier();
            for n in (n0..n1).step_by(ROWS) {
                for o in (0..4096).step_by(16 * WIDE_OF_ROWS) {
                    let mut c = zero::<ROWS, WIDE_OF_ROWS>();
                    kern::<ROWS, WIDE_OF_ROWS>(10, d.p().add(n * 16), 16, 1, w.wdt.p().add(o), 4096, &mut c);
                    store_tile(dp2.p().add(n * PS + o), PS, &c);
                }
            }
            for n in n0..n1 {
                backward(&w, &imgs[n], dp2.p().add(n * PS), s);
            }
            for i in (r0..r1).step_by(TALL) {
                let mut c = zero::<TALL, 1>();
                kern::<TALL, 1>(32, p2.p().add(i), 1, PS, d.p(), 16, &mut c);
                for r in 0..TALL {
                    let p = w.wd.p().add((i + r) * 16);
                    st(p, fma(c[r][0], set(-LR), ld(p)));
                }
            }
            team.barrier();
            if t == 0 {
                for s in &scr {
                    for (p, g) in [(&w.k1, &s.g1), (&w.k2, &s.g2), (&w.b1, &s.gb1), (&w.b2, &s.gb2)] {
                        p.slice().iter_mut().zip(g.slice().iter()).for_each(|(p, g)| *p -= LR * g);
                    }
                }
                for n in 0..32 {
                    st(w.bd.p(), fma(ld(d.p().add(n * 16)), set(-LR), ld(w.bd.p())));
                }
                w.derive();
            }
        });
        (0..nt).map(|t| losses.slice()[16 * t] as f64).sum()
    });
}
