//! MLP on own register tiles (the `gemm` crate reached 308 / 588 it/s with 1 / 2 threads). Weights,
//! activations and their gradients of width 512 are kept in strips of 64 columns, [8][rows][64];
//! SGD and bias are part of the products.
use crate::{kernel::*, team::Team};
use common::{Bench, Numbers};

const LR: f32 = 0.01;
const B: usize = 128;
const H: usize = 512;

/// z[128 x 64] = b + a[128 x kb] w[kb x 64], several calls add up (first: start from the bias)
#[inline(always)]
unsafe fn block(a: *const f32, rsa: usize, kb: usize, w: *const f32, b: *const f32, first: bool, z: *mut f32) {
    tiles!(B, r, MR, {
        for o in (0..64).step_by(16 * WIDE_OF_6) {
            let c = z.add(r * 64 + o);
            let mut t = if first { load_tile::<MR, WIDE_OF_6>(b.add(o), 0) } else { load_tile::<MR, WIDE_OF_6>(c, 64) };
            kern::<MR, WIDE_OF_6>(kb, a.add(r * rsa), rsa, 1, w.add(o), 64, &mut t);
            store_tile(c, 64, &t);
        }
    });
}
/// w[k x 64] -= lr a^T d, a element (i, s) at a[i + s*csa]; then the bias
#[inline(always)]
unsafe fn upd(k: usize, a: *const f32, csa: usize, d: *const f32, w: *mut f32, first: usize) {
    tiles!(k, r, MR, {
        for o in (0..64).step_by(16 * WIDE_OF_6) {
            let c = w.add((first + r) * 64 + o);
            let mut t = load_tile::<MR, WIDE_OF_6>(c, 64);
            kern::<MR, WIDE_OF_6>(B, a.add(r), 1, csa, d.add(o), 64, &mut t);
            store_tile(c, 64, &t);
        }
    });
}
/// d *= -lr (in place) and bias += column sums
unsafe fn scale_and_bias(d: *mut f32, b: *mut f32) {
    let mut v = load_tile::<1, 4>(b, 64);
    for r in 0..B {
        for q in 0..4 {
            let p = d.add(r * 64 + 16 * q);
            let x = mul(ld(p), set(-LR));
            st(p, x);
            v[0][q] = add(v[0][q], x);
        }
    }
    store_tile(b, 64, &v);
}
#[inline(never)]
unsafe fn first_layer(x: *const f32, w: *const f32, b: *const f32, z: *mut f32) {
    for k in (0..784).step_by(112) {
        block(x.add(k), 784, 112, w.add(k * 64), b, k == 0, z);
    }
    (0..B * 64).step_by(16).for_each(|o| st(z.add(o), relu(ld(z.add(o)))));
}
#[inline(never)]
unsafe fn layer(x: *const f32, w: *const f32, b: *const f32, z: *mut f32) {
    for s in 0..8 {
        block(x.add(s * B * 64), 64, 64, w.add(s * 64 * 64), b, s == 0, z);
    }
}
#[inline(never)]
unsafe fn upd_first(x: *const f32, d: *const f32, w: *mut f32) {
    upd(784, x, 784, d, w, 0);
}
#[inline(never)]
unsafe fn upd_layer(x: *const f32, d: *const f32, w: *mut f32) {
    (0..8).for_each(|s| upd(64, x.add(s * B * 64), 64, d, w, s * 64));
}
fn strips(v: &[f32], k: usize) -> Buf {
    let b = Buf::new(k * H);
    for i in 0..k {
        (0..H).for_each(|o| b.slice()[o / 64 * k * 64 + i * 64 + o % 64] = v[i * H + o]);
    }
    b
}

pub(crate) fn w5(bench: &mut Bench, team: &Team) {
    let mut g = Numbers::new(5);
    let xs: Vec<Buf> = (0..4).map(|_| Buf::of(&g.uniform(B * 784, 1.0))).collect();
    let w1 = strips(&g.weight(784, H), 784);
    let w2 = strips(&g.weight(H, H), H);
    let w3 = Buf::padded(&g.weight(H, 10), 10, 16);
    let (b1, b2, b3, w3t, w2t, none) =
        (Buf::new(H), Buf::new(H), Buf::new(16), Buf::new(16 * H), Buf::new(H * H), Buf::new(64));
    let (z1, z2, d1, d2) = (Buf::new(B * H), Buf::new(B * H), Buf::new(B * H), Buf::new(B * H));
    let (l, d3, losses) = (Buf::new(B * 16), Buf::new(B * 16), Buf::new(64));
    let nt = team.n;
    let mut it = 0;
    bench.training("w5", "mlp", || {
        let xb = &xs[it % 4];
        it += 1;
        team.run(&|t| unsafe {
            let x = xb.p() as *const f32;
            let mine = 8 / nt * t..8 / nt * (t + 1);
            let (r0, rn) = (B / nt * t, B / nt);
            let (strip, wide) = (B * 64, H * 64);
            for s in mine.clone() {
                first_layer(x, w1.p().add(s * 784 * 64), b1.p().add(s * 64), z1.p().add(s * strip));
                for i in (s * 64..s * 64 + 64).step_by(16) {
                    transpose(w3.p().add(i * 16), 16, w3t.p().add(i), H);
                }
            }
            team.barrier();
            for s in mine.clone() {
                let z = z2.p().add(s * strip);
                layer(z1.p(), w2.p().add(s * wide), b2.p().add(s * 64), z);
                (0..strip).step_by(16).for_each(|o| st(z.add(o), relu(ld(z.add(o)))));
            }
            team.barrier();
            let mut loss = 0.0;
            for r in (r0..r0 + rn).step_by(ROWS) {
                let mut c = [[ld(b3.p())]; ROWS];
                for s in 0..8 {
                    kern::<ROWS, 1>(64, z2.p().add(s * strip + r * 64), 64, 1, w3.p().add(s * 64 * 16), 16, &mut c);
                }
                store_tile(l.p().add(r * 16), 16, &c);
                for s in r..r + ROWS {
                    loss += ce_row(l.p().add(s * 16), 10, s * 7 % 10, 1.0 / B as f32, d3.p().add(s * 16)) as f64;
                }
                for o in (0..H).step_by(16 * WIDE_OF_ROWS) {
                    let mut c = zero::<ROWS, WIDE_OF_ROWS>();
                    kern::<ROWS, WIDE_OF_ROWS>(10, d3.p().add(r * 16), 16, 1, w3t.p().add(o), H, &mut c);
                    for q in 0..ROWS {
                        for v in 0..WIDE_OF_ROWS {
                            let at = o / 64 * strip + (r + q) * 64 + o % 64 + 16 * v;
                            st(d2.p().add(at), mask_pos(c[q][v], ld(z2.p().add(at))));
                        }
                    }
                }
            }
            *losses.p().add(16 * t) = (loss / B as f64) as f32;
            // w2t strip s: rows = outputs, columns = inputs of this strip
            for s in mine.clone() {
                for i in (0..64).step_by(16) {
                    for o in (0..H).step_by(16) {
                        transpose(
                            w2.p().add(o / 64 * wide + (s * 64 + i) * 64 + o % 64),
                            64,
                            w2t.p().add(s * wide + o * 64 + i),
                            64,
                        );
                    }
                }
            }
            team.barrier();
            for s in mine.clone() {
                for i in (s * 64..s * 64 + 64).step_by(TALL) {
                    let mut c = zero::<TALL, 1>();
                    kern::<TALL, 1>(B, z2.p().add(s * strip + i % 64), 1, 64, d3.p(), 16, &mut c);
                    for r in 0..TALL {
                        let p = w3.p().add((i + r) * 16);
                        st(p, fma(c[r][0], set(-LR), ld(p)));
                    }
                }
                let d = d1.p().add(s * strip);
                layer(d2.p(), w2t.p().add(s * wide), none.p(), d);
                let z = z1.p().add(s * strip);
                (0..strip).step_by(16).for_each(|o| st(d.add(o), mask_pos(ld(d.add(o)), ld(z.add(o)))));
                scale_and_bias(d, b1.p().add(s * 64));
                upd_first(x, d, w1.p().add(s * 784 * 64));
            }
            if t == 0 {
                for r in 0..B {
                    st(b3.p(), fma(ld(d3.p().add(r * 16)), set(-LR), ld(b3.p())));
                }
            }
            team.barrier();
            for s in mine.clone() {
                let d = d2.p().add(s * strip);
                scale_and_bias(d, b2.p().add(s * 64));
                upd_layer(z1.p(), d, w2.p().add(s * wide));
            }
        });
        (0..nt).map(|t| losses.slice()[16 * t] as f64).sum()
    });
}
