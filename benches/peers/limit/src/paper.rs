//! The network of the paper. Activations are kept feature-major ([features x 16 samples], one
//! vector per feature); the batch of 16 is the vector. Gradients of outputs are also transposed to
//! [16 x out] for W += X^T (-lr D), done in place.
use crate::{kernel::*, team::Team};
use common::{Bench, Numbers, fine_labels};

const LR: f32 = 0.01;
const B: usize = 16;

/// weight [IN x LD] row-major (OUT columns used) and bias
pub(crate) struct Lin {
    pub(crate) w: Buf,
    pub(crate) b: Buf,
}
impl Lin {
    pub(crate) fn new(g: &mut Numbers, i: usize, o: usize, ld: usize) -> Lin {
        Lin { w: Buf::padded(&g.weight(i, o), o, ld), b: Buf::new(ld) }
    }
}

/// yt[o] = act(sum_i w[i][o] xt[i] + b[o])
#[inline(always)]
pub(crate) unsafe fn fwd<const IN: usize, const OUT: usize, const LD: usize, const MR: usize, const RELU: bool>(
    l: &Lin,
    xt: *const f32,
    yt: *mut f32,
) {
    for o in (0..OUT).step_by(MR) {
        let mut t = zero::<MR, 1>();
        kern::<MR, 1>(IN, l.w.p().add(o), 1, LD, xt, B, &mut t);
        for r in 0..MR {
            let v = add(t[r][0], set(*l.b.p().add(o + r)));
            st(yt.add((o + r) * B), if RELU { relu(v) } else { v });
        }
    }
}
/// dxt[i] (+)= sum_o w[i][o] dt[o], masked by zt > 0
#[inline(always)]
unsafe fn back<const OUT: usize, const LD: usize, const ADD: bool>(
    l: &Lin,
    dt: *const f32,
    dxt: *mut f32,
    zt: Option<*const f32>,
) {
    for i in (0..64).step_by(TALL) {
        let mut t = if ADD { load_tile::<TALL, 1>(dxt.add(i * B), B) } else { zero::<TALL, 1>() };
        kern::<TALL, 1>(OUT, l.w.p().add(i * LD), LD, 1, dt, B, &mut t);
        for r in 0..TALL {
            let v = if let Some(z) = zt { mask_pos(t[r][0], ld(z.add((i + r) * B))) } else { t[r][0] };
            st(dxt.add((i + r) * B), v);
        }
    }
}
/// -lr * transpose of dt [OUT x 16] into d [16 x OUT]
#[inline(always)]
unsafe fn flip<const OUT: usize>(dt: *const f32, d: *mut f32) {
    for o in (0..OUT).step_by(16) {
        let mut r = [set(0.0); 16];
        for i in 0..16 {
            r[i] = mul(ld(dt.add((o + i) * B)), set(-LR));
        }
        transpose_regs(&mut r);
        for i in 0..16 {
            st(d.add(i * OUT + o), r[i]);
        }
    }
}
/// w[i][..] += sum_s x[i][s] d[s][..] for rows lo..hi; x element (i, s) at x[i*rsx + s*csx]
#[inline(always)]
unsafe fn upd<const LD: usize, const MR: usize, const NV: usize>(
    w: *mut f32,
    x: *const f32,
    rsx: usize,
    csx: usize,
    d: *const f32,
    lo: usize,
    hi: usize,
) {
    for i in (lo..hi).step_by(MR) {
        for o in (0..LD).step_by(16 * NV) {
            let c = w.add(i * LD + o);
            let mut t = load_tile::<MR, NV>(c, LD);
            kern::<MR, NV>(B, x.add(i * rsx), rsx, csx, d.add(o), LD, &mut t);
            store_tile(c, LD, &t);
        }
    }
}
#[inline(always)]
unsafe fn upd_bias<const LD: usize>(l: &Lin, d: *const f32) {
    for o in (0..LD).step_by(16) {
        let mut v = ld(l.b.p().add(o));
        for s in 0..16 {
            v = add(v, ld(d.add(s * LD + o)));
        }
        st(l.b.p().add(o), v);
    }
}
#[inline(always)]
unsafe fn upd_all<const LD: usize, const MR: usize, const NV: usize>(l: &Lin, xt: *const f32, d: *const f32) {
    upd::<LD, MR, NV>(l.w.p(), xt, B, 1, d, 0, 64);
    upd_bias::<LD>(l, d);
}

/// Mean cross-entropy over 16 samples, logits feature-major; replaces them by the gradient. hot[c]:
/// samples of class c.
#[inline(always)]
unsafe fn ce<const C: usize>(lt: *mut f32, hot: &[u16; 20]) -> f64 {
    let mut m = ld(lt);
    for c in 1..C {
        m = max(m, ld(lt.add(c * B)));
    }
    let (mut s, mut at) = (set(0.0), set(0.0));
    for c in 0..C {
        let z = sub(ld(lt.add(c * B)), m);
        at = replace(at, hot[c], z);
        let e = exp(z);
        s = add(s, e);
        st(lt.add(c * B), e);
    }
    let k = mul(recip(s), set(1.0 / 16.0));
    for c in 0..C {
        let p = mul(ld(lt.add(c * B)), k);
        st(lt.add(c * B), replace(p, hot[c], sub(p, set(1.0 / 16.0))));
    }
    // the sum of the logarithms is the logarithm of the product (each factor is in 1..C)
    ((hproduct(s) as f64).ln() - hsum(at) as f64) / 16.0
}

struct Scratch {
    z1: Buf,
    z2: Buf,
    l: Buf,
    d2: Buf,
    d1: Buf,
    dr: Buf,
    dh: Buf,
}
impl Scratch {
    fn new() -> Scratch {
        let n = || Buf::new(64 * B);
        Scratch { z1: n(), z2: n(), l: n(), d2: n(), d1: n(), dr: n(), dh: n() }
    }
}

/// forward, backward and update of one fine classifier; adds to s.dh
#[inline(never)]
unsafe fn fine(f: &[Lin; 3], ht: *const f32, hot: &[u16; 20], s: &Scratch) -> f64 {
    let (z1, z2, l, d2, d1, dr) = (s.z1.p(), s.z2.p(), s.l.p(), s.d2.p(), s.d1.p(), s.dr.p());
    fwd::<64, 64, 64, TALL, true>(&f[0], ht, z1);
    fwd::<64, 64, 64, TALL, true>(&f[1], z1, z2);
    fwd::<64, 5, 16, 5, false>(&f[2], z2, l);
    let loss = ce::<5>(l, hot);
    back::<5, 16, false>(&f[2], l, d2, Some(z2));
    back::<64, 64, false>(&f[1], d2, d1, Some(z1));
    back::<64, 64, true>(&f[0], d1, s.dh.p(), None);
    flip::<16>(l, dr); // rows 5..16 of l stay zero
    upd_all::<16, TALL, 1>(&f[2], z2, dr);
    flip::<64>(d2, dr);
    upd_all::<64, 4, WIDE_OF_6>(&f[1], z1, dr);
    flip::<64>(d1, dr);
    upd_all::<64, 4, WIDE_OF_6>(&f[0], ht, dr);
    loss
}
#[inline(never)]
unsafe fn coarse(f: &Lin, ht: *const f32, hot: &[u16; 20], s: &Scratch) -> f64 {
    let (l, dr) = (s.l.p(), s.dr.p());
    fwd::<64, 20, 32, TALL_OF_20, false>(f, ht, l);
    let loss = ce::<20>(l, hot);
    back::<20, 32, true>(f, l, s.dh.p(), None);
    flip::<32>(l, dr);
    upd_all::<32, ROWS, WIDE_OF_ROWS>(f, ht, dr);
    // the fine classifiers rely on zero rows above their 5 logits
    for c in 5..20 {
        st(l.add(c * B), set(0.0));
    }
    loss
}

/// The initial values of a tile: a pointer, because one of two values would be passed in memory.
static ZEROS: [f32; 64] = [0.0; 64];

/// part[16 x 64] = x[16 x lo..hi] w[lo..hi x 64]
#[inline(never)]
pub(crate) unsafe fn first_fwd(w: *const f32, x: *const f32, part: *mut f32, lo: usize, hi: usize) {
    // blocks of 128 rows of w (32 KB) so that the second and third pass read them from L1
    for kb in (lo..hi).step_by(128) {
        let k = 128.min(hi - kb);
        macro_rules! rows {
            ($r:expr, $mr:literal) => {{
                for o in (0..64).step_by(16 * WIDE_OF_6) {
                    let c = part.add($r * 64 + o);
                    let (from, row) = if kb == lo { (ZEROS.as_ptr(), 0) } else { (c.cast_const(), 64) };
                    let mut t = load_tile::<$mr, WIDE_OF_6>(from, row);
                    kern::<$mr, WIDE_OF_6>(k, x.add($r * 3072 + kb), 3072, 1, w.add(kb * 64 + o), 64, &mut t);
                    store_tile(c, 64, &t);
                }
            }};
        }
        rows!(0, 6);
        rows!(6, 6);
        rows!(12, 4);
    }
}
#[inline(never)]
unsafe fn first_upd(w: *mut f32, x: *const f32, d: *const f32, lo: usize, hi: usize) {
    upd::<64, 6, WIDE_OF_6>(w, x, 1, 3072, d, lo, hi);
}

// Variants for more columns than fit the L2 (measured 10-15 % faster there, slower at one column):
// x transposed once for all columns, w prefetched.
const KB: usize = 64;
const AHEAD: usize = 4;
/// xt[3072 x 16] = transpose of x[16 x 3072]
#[inline(never)]
unsafe fn pack(x: *const f32, xt: *mut f32) {
    for k in (0..3072).step_by(16) {
        transpose(x.add(k), 3072, xt.add(k * B), B);
    }
}
#[inline(never)]
unsafe fn first_fwd_far(w: *const f32, xt: *const f32, part: *mut f32) {
    for kb in (0..3072).step_by(KB) {
        macro_rules! rows {
            ($r:expr, $mr:literal, $p0:expr, $p1:expr) => {{
                // a quarter of the lines before each quarter of the sums: where a tile is narrow,
                // of the columns
                const STEPS: usize = KB / WIDE_OF_6;
                for o in (0..64).step_by(16 * WIDE_OF_6) {
                    let c = part.add($r * 64 + o);
                    let (from, row) = if kb == 0 { (ZEROS.as_ptr(), 0) } else { (c.cast_const(), 64) };
                    let mut t = load_tile::<$mr, WIDE_OF_6>(from, row);
                    for k in 0..WIDE_OF_6 {
                        let next = w.add((kb + KB) * 64);
                        let quarter = o / 16 + k;
                        for i in $p0 + quarter * ($p1 - $p0) / 4..$p0 + (quarter + 1) * ($p1 - $p0) / 4 {
                            prefetch(next.wrapping_add(i * 16));
                        }
                        let k = kb + k * STEPS;
                        kern::<$mr, WIDE_OF_6>(STEPS, xt.add(k * B + $r), 1, B, w.add(k * 64 + o), 64, &mut t);
                    }
                    store_tile(c, 64, &t);
                }
            }};
        }
        rows!(0, 6, 0, 96);
        rows!(6, 6, 96, 192);
        rows!(12, 4, 192, 256);
    }
}
#[inline(never)]
unsafe fn first_upd_far(w: *mut f32, xt: *const f32, d: *const f32) {
    for i in (0..3072).step_by(6) {
        let c = w.add(i * 64);
        for q in 0..24 {
            prefetch(c.wrapping_add(AHEAD * 384 + q * 16));
        }
        for o in (0..64).step_by(16 * WIDE_OF_6) {
            let c = c.add(o);
            let mut t = load_tile::<6, WIDE_OF_6>(c, 64);
            kern::<6, WIDE_OF_6>(B, xt.add(i * B), B, 1, d.add(o), 64, &mut t);
            store_tile(c, 64, &t);
        }
    }
}

struct Col {
    a: Lin,
    b: Lin,
    part: Vec<Buf>,
    z1: Buf,
    z2: Buf,
    d2: Buf,
    d1: Buf,
    dr: Buf,
}

pub(crate) fn w1(bench: &mut Bench, team: &Team, n: usize, skip: bool) {
    let mut g = Numbers::new(1);
    let nt = team.n;
    let xs: Vec<Buf> = (0..20).map(|_| Buf::of(&g.uniform(16 * 3072, 1.0))).collect();
    let k = || Buf::new(64 * B);
    let cols: Vec<Col> = (0..n)
        .map(|_| {
            let (a, b) = (Lin::new(&mut g, 3072, 64, 64), Lin::new(&mut g, 64, 64, 64));
            Col { a, b, part: (0..nt).map(|_| k()).collect(), z1: k(), z2: k(), d2: k(), d1: k(), dr: k() }
        })
        .collect();
    let cl = Lin::new(&mut g, 64, 20, 32);
    let fines: Vec<[Lin; 3]> = (0..20)
        .map(|_| [Lin::new(&mut g, 64, 64, 64), Lin::new(&mut g, 64, 64, 64), Lin::new(&mut g, 64, 5, 16)])
        .collect();
    let hot_c: Vec<[u16; 20]> = (0..20).map(|b| std::array::from_fn(|c| if c == b { 0xffff } else { 0 })).collect();
    let hot_f: Vec<[u16; 20]> = (0..20)
        .map(|b| {
            std::array::from_fn(|c| {
                fine_labels(b).iter().enumerate().map(|(s, &label)| ((label == c) as u16) << s).sum()
            })
        })
        .collect();
    let scr: Vec<Scratch> = (0..nt).map(|_| Scratch::new()).collect();
    let hts: Vec<Buf> = (0..nt).map(|_| k()).collect();
    let losses = Buf::new(64);
    let xts: Vec<Buf> = (0..nt).map(|_| Buf::new(3072 * B)).collect();
    // columns are owned by threads where they divide evenly, else the 3072 input rows are split;
    // the same part of w1 is read and updated by the same thread, so it stays in that core's L2
    let split = n % nt != 0;
    let far = !split && n / nt > 2;
    let mut it = 0;
    let v = format!("cols={n};{}", if skip { "skip" } else { "noskip" });
    bench.training("w1", &v, || {
        let b = it % 20;
        it += 1;
        team.run(&|t| unsafe {
            let x = xs[b].p() as *const f32;
            let range = |c: usize| match split {
                true => Some((3072 / nt * t, 3072 / nt * (t + 1))),
                false => (c % nt == t).then_some((0, 3072)),
            };
            let xt = xts[t].p();
            if far {
                pack(x, xt);
            }
            for (c, col) in cols.iter().enumerate() {
                if let Some((lo, hi)) = range(c) {
                    match far {
                        true => first_fwd_far(col.a.w.p(), xt, col.part[t].p()),
                        false => first_fwd(col.a.w.p(), x, col.part[t].p(), lo, hi),
                    }
                }
            }
            if split {
                team.barrier();
            }
            for (c, col) in cols.iter().enumerate().filter(|(c, _)| c % nt == t) {
                for o in (0..64).step_by(16) {
                    let bias = ld(col.a.b.p().add(o));
                    let mut r = [set(0.0); 16];
                    for s in 0..16 {
                        let mut v = add(bias, ld(col.part[if split { 0 } else { c % nt }].p().add(s * 64 + o)));
                        if split {
                            for q in 1..nt {
                                v = add(v, ld(col.part[q].p().add(s * 64 + o)));
                            }
                        }
                        r[s] = relu(v);
                    }
                    transpose_regs(&mut r);
                    for s in 0..16 {
                        st(col.z1.p().add((o + s) * B), r[s]);
                    }
                }
                fwd::<64, 64, 64, TALL, true>(&col.b, col.z1.p(), col.z2.p());
            }
            team.barrier();
            let (ht, s) = (hts[t].p(), &scr[t]);
            for o in (0..64 * B).step_by(16) {
                let mut v = ld(cols[0].z2.p().add(o));
                for col in &cols[1..] {
                    v = add(v, ld(col.z2.p().add(o)));
                }
                st(ht.add(o), v);
                st(s.dh.p().add(o), set(0.0));
            }
            let mut loss = 0.0;
            if t == 0 {
                loss += coarse(&cl, ht, &hot_c[b], s);
            }
            if skip {
                if t == nt - 1 {
                    loss += fine(&fines[b], ht, &hot_f[b], s);
                }
            } else {
                for f in fines.iter().skip(t).step_by(nt) {
                    loss += fine(f, ht, &hot_f[b], s);
                }
            }
            *losses.p().add(16 * t) = loss as f32;
            team.barrier();
            for (_, col) in cols.iter().enumerate().filter(|(c, _)| c % nt == t) {
                for o in (0..64 * B).step_by(16) {
                    let mut v = ld(scr[0].dh.p().add(o));
                    for s in &scr[1..] {
                        v = add(v, ld(s.dh.p().add(o)));
                    }
                    st(col.d2.p().add(o), mask_pos(v, ld(col.z2.p().add(o))));
                }
                back::<64, 64, false>(&col.b, col.d2.p(), col.d1.p(), Some(col.z1.p()));
                flip::<64>(col.d2.p(), col.dr.p());
                upd_all::<64, 4, WIDE_OF_6>(&col.b, col.z1.p(), col.dr.p());
                flip::<64>(col.d1.p(), col.dr.p());
                upd_bias::<64>(&col.a, col.dr.p());
            }
            if split {
                team.barrier();
            }
            for (c, col) in cols.iter().enumerate() {
                if let Some((lo, hi)) = range(c) {
                    match far {
                        true => first_upd_far(col.a.w.p(), xt, col.dr.p()),
                        false => first_upd(col.a.w.p(), x, col.dr.p(), lo, hi),
                    }
                }
            }
        });
        (0..nt).map(|t| losses.slice()[16 * t] as f64).sum()
    });
}
