//! Child-sum Tree-LSTM, one tree at a time: all leaves in one product, inner nodes as matrix-vector
//! products, weight gradients collected over the nodes and applied in place by one product each.
//! One thread works (a tree is ~25 us).
use crate::kernel::*;
use common::{Bench, Node, Numbers, tree};

const LR: f32 = 0.01;
const H: usize = 64;
const G: usize = 192;

/// y[0..64] = m[64 x 16*NV] d
#[inline(always)]
unsafe fn dots<const NV: usize>(m: *const f32, ldm: usize, d: *const f32) -> [V; 4] {
    let mut y = [set(0.0); 4];
    for q in 0..4 {
        let mut a = [set(0.0); 16];
        for first in (0..16).step_by(TALL) {
            let mut tile = [set(0.0); TALL];
            for v in 0..NV {
                let dv = ld(d.add(16 * v));
                for r in 0..TALL {
                    tile[r] = fma(ld(m.add((16 * q + first + r) * ldm + 16 * v)), dv, tile[r]);
                }
            }
            a[first..first + TALL].copy_from_slice(&tile);
        }
        y[q] = sums(a);
    }
    y
}
/// w[64 x LD] += x^T d, x [k x 64], d [k x LD] (d already times -lr)
#[inline(always)]
unsafe fn upd<const LD: usize>(w: *mut f32, x: *const f32, d: *const f32, k: usize) {
    for i in (0..H).step_by(4) {
        for o in (0..LD).step_by(16 * WIDE_OF_6) {
            let c = w.add(i * LD + o);
            let mut t = load_tile::<4, WIDE_OF_6>(c, LD);
            kern::<4, WIDE_OF_6>(k, x.add(i), 1, H, d.add(o), LD, &mut t);
            store_tile(c, LD, &t);
        }
    }
}
#[inline(always)]
unsafe fn upd_bias<const LD: usize>(b: *mut f32, d: *const f32, k: usize) {
    for o in (0..LD).step_by(16) {
        let mut v = ld(b.add(o));
        for r in 0..k {
            v = add(v, ld(d.add(r * LD + o)));
        }
        st(b.add(o), v);
    }
}

pub(crate) fn w7(bench: &mut Bench) {
    let mut g = Numbers::new(7);
    let x = Buf::of(&g.uniform(16 * H, 1.0));
    let (wiou, uiou, uf) = (Buf::of(&g.weight(H, G)), Buf::of(&g.weight(H, G)), Buf::of(&g.weight(H, H)));
    let wo = Buf::padded(&g.weight(H, 5), 5, 16);
    let (biou, bf, bo, uft) = (Buf::new(G), Buf::new(H), Buf::new(16), Buf::new(H * H));
    // nodes: leaves 0..16 by leaf number, inner nodes 16..31 in post order
    let trees: Vec<Vec<(usize, usize)>> = (0..64)
        .map(|s| {
            let (mut ids, mut inner) = (Vec::new(), Vec::new());
            for n in tree(s + 1, 16) {
                ids.push(match n {
                    Node::Leaf(k) => k,
                    Node::Inner(a, b) => {
                        inner.push((ids[a], ids[b]));
                        15 + inner.len()
                    }
                });
            }
            inner
        })
        .collect();
    // gates, cells, their gradients; rows = nodes
    let (gate, dg) = (Buf::new(31 * G), Buf::new(31 * G));
    let n = || Buf::new(31 * H);
    let (c, tc, h, f, s, df, dh, dc) = (n(), n(), n(), n(), n(), n(), n(), n());
    let (l, d) = (Buf::new(16), Buf::new(16));
    // activations of one node; extra: contribution of the children to c
    let node = |i: usize, extra: Option<(usize, usize)>| unsafe {
        for o in (0..H).step_by(16) {
            let q = gate.p().add(i * G + o);
            let (ig, og, u) = (sigmoid(ld(q)), sigmoid(ld(q.add(H))), tanh(ld(q.add(2 * H))));
            st(q, ig);
            st(q.add(H), og);
            st(q.add(2 * H), u);
            let mut v = mul(ig, u);
            if let Some((a, b)) = extra {
                v = fma(ld(f.p().add(a * H + o)), ld(c.p().add(a * H + o)), v);
                v = fma(ld(f.p().add(b * H + o)), ld(c.p().add(b * H + o)), v);
            }
            let t = tanh(v);
            st(c.p().add(i * H + o), v);
            st(tc.p().add(i * H + o), t);
            st(h.p().add(i * H + o), mul(og, t));
        }
    };
    let step = |it: usize| unsafe {
        for r in (0..16).step_by(ROWS) {
            for o in (0..G).step_by(16 * WIDE_OF_ROWS) {
                let mut t = load_tile::<ROWS, WIDE_OF_ROWS>(biou.p().add(o), 0);
                kern::<ROWS, WIDE_OF_ROWS>(H, x.p().add(r * H), H, 1, wiou.p().add(o), G, &mut t);
                store_tile(gate.p().add(r * G + o), G, &t);
            }
        }
        (0..16).for_each(|i| node(i, None));
        let tr = &trees[it % 64];
        for (k, &(a, b)) in tr.iter().enumerate() {
            let (a, b) = (a.min(b), a.max(b));
            for o in (0..H).step_by(16) {
                st(s.p().add(k * H + o), add(ld(h.p().add(a * H + o)), ld(h.p().add(b * H + o))));
            }
            for o in (0..G).step_by(16 * WIDE_OF_1) {
                let mut t = load_tile::<1, WIDE_OF_1>(biou.p().add(o), 0);
                kern::<1, WIDE_OF_1>(H, s.p().add(k * H), 0, 1, uiou.p().add(o), G, &mut t);
                store_tile(gate.p().add((16 + k) * G + o), G, &t);
            }
            for o in (0..H).step_by(16 * WIDE_OF_2) {
                let mut t = load_tile::<2, WIDE_OF_2>(bf.p().add(o), 0);
                kern::<2, WIDE_OF_2>(H, h.p().add(a * H), (b - a) * H, 1, uf.p().add(o), H, &mut t);
                for v in 0..WIDE_OF_2 {
                    st(f.p().add(a * H + o + 16 * v), sigmoid(t[0][v]));
                    st(f.p().add(b * H + o + 16 * v), sigmoid(t[1][v]));
                }
            }
            node(16 + k, Some((a, b)));
        }
        let root = h.p().add(30 * H);
        let mut t = [[ld(bo.p())]];
        kern::<1, 1>(H, root, 0, 1, wo.p(), 16, &mut t);
        st(l.p(), t[0][0]);
        let loss = ce_row(l.p(), 5, it % 5, 1.0, d.p());
        // backward
        for i in (0..H).step_by(16) {
            for o in (0..H).step_by(16) {
                transpose(uf.p().add(i * H + o), H, uft.p().add(o * H + i), H);
            }
        }
        let y = dots::<1>(wo.p(), 16, d.p());
        for v in 0..4 {
            st(dh.p().add(30 * H + 16 * v), y[v]);
            st(dc.p().add(30 * H + 16 * v), set(0.0));
        }
        let one = set(1.0);
        let gates_back = |i: usize| {
            for o in (0..H).step_by(16) {
                let q = gate.p().add(i * G + o);
                let (ig, og, u) = (ld(q), ld(q.add(H)), ld(q.add(2 * H)));
                let (t, g) = (ld(tc.p().add(i * H + o)), ld(dh.p().add(i * H + o)));
                let go = mul(g, og);
                let dcv = add(ld(dc.p().add(i * H + o)), fnma(mul(go, t), t, go));
                st(dc.p().add(i * H + o), dcv);
                let p = dg.p().add(i * G + o);
                let di = mul(dcv, u);
                st(p, mul(mul(di, ig), sub(one, ig)));
                st(p.add(H), mul(mul(go, t), sub(one, og)));
                let du = mul(dcv, ig);
                st(p.add(2 * H), fnma(mul(du, u), u, du));
            }
        };
        for (k, &(a, b)) in tr.iter().enumerate().rev() {
            let i = 16 + k;
            gates_back(i);
            let (a, b) = (a.min(b), a.max(b));
            for j in [a, b] {
                for o in (0..H).step_by(16) {
                    let (dcv, fv) = (ld(dc.p().add(i * H + o)), ld(f.p().add(j * H + o)));
                    let z = mul(dcv, fv);
                    st(dc.p().add(j * H + o), z);
                    st(df.p().add(j * H + o), mul(mul(z, ld(c.p().add(j * H + o))), sub(one, fv)));
                }
            }
            let ds = dots::<12>(uiou.p(), G, dg.p().add(i * G));
            for v in (0..4).step_by(WIDE_OF_2) {
                let mut t: Acc<2, WIDE_OF_2> = [std::array::from_fn(|q| ds[v + q]); 2];
                kern::<2, WIDE_OF_2>(H, df.p().add(a * H), (b - a) * H, 1, uft.p().add(16 * v), H, &mut t);
                for q in 0..WIDE_OF_2 {
                    st(dh.p().add(a * H + 16 * (v + q)), t[0][q]);
                    st(dh.p().add(b * H + 16 * (v + q)), t[1][q]);
                }
            }
        }
        (0..16).for_each(gates_back);
        // updates
        for o in (0..31 * G).step_by(16) {
            st(dg.p().add(o), mul(ld(dg.p().add(o)), set(-LR)));
        }
        for o in (0..30 * H).step_by(16) {
            st(df.p().add(o), mul(ld(df.p().add(o)), set(-LR)));
        }
        let dn = mul(ld(d.p()), set(-LR));
        for r in 0..H {
            let p = wo.p().add(r * 16);
            st(p, fma(set(*root.add(r)), dn, ld(p)));
        }
        st(bo.p(), add(ld(bo.p()), dn));
        upd::<G>(wiou.p(), x.p(), dg.p(), 16);
        upd::<G>(uiou.p(), s.p(), dg.p().add(16 * G), 15);
        upd::<H>(uf.p(), h.p(), df.p(), 30);
        upd_bias::<G>(biou.p(), dg.p(), 31);
        upd_bias::<H>(bf.p(), df.p(), 30);
        loss as f64
    };
    let mut it = 0;
    bench.training("w7", "treelstm", || {
        it += 1;
        step(it - 1)
    });
}
