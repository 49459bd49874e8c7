//! Scalar Wengert list: a Vec of nodes, cleared and rebuilt in each run; each node has two parents
//! with their partial derivatives.
use common::{Bench, SAMPLES, WEIGHTS};
use std::hint::black_box;

#[derive(Clone, Copy)]
struct Node {
    a: u32,
    b: u32,
    da: f32,
    db: f32,
}
#[derive(Clone, Copy)]
struct Var {
    i: u32,
    v: f32,
}
#[derive(Default)]
struct Tape {
    nodes: Vec<Node>,
    adj: Vec<f32>,
}
impl Tape {
    #[inline(always)]
    fn push(&mut self, v: f32, a: u32, b: u32, da: f32, db: f32) -> Var {
        let i = self.nodes.len() as u32;
        self.nodes.push(Node { a, b, da, db });
        Var { i, v }
    }
    fn leaf(&mut self, v: f32) -> Var {
        self.push(v, 0, 0, 0.0, 0.0)
    }
    #[inline(always)]
    fn mul(&mut self, x: Var, y: Var) -> Var {
        self.push(x.v * y.v, x.i, y.i, y.v, x.v)
    }
    #[inline(always)]
    fn add(&mut self, x: Var, y: Var) -> Var {
        self.push(x.v + y.v, x.i, y.i, 1.0, 1.0)
    }
    #[inline(always)]
    fn mulc(&mut self, x: Var, c: f32) -> Var {
        self.push(x.v * c, x.i, x.i, c, 0.0)
    }
    #[inline(always)]
    fn addc(&mut self, x: Var, c: f32) -> Var {
        self.push(x.v + c, x.i, x.i, 1.0, 0.0)
    }
    #[inline(never)]
    fn backward(&mut self, y: Var) {
        let n = self.nodes.len();
        self.adj.clear();
        self.adj.resize(n, 0.0);
        let adj = &mut self.adj[..];
        adj[y.i as usize] = 1.0;
        for i in (0..n).rev() {
            let (d, g) = (self.nodes[i], adj[i]);
            // parents are always earlier nodes; leaves point to node 0 with zero partials
            unsafe {
                *adj.get_unchecked_mut(d.a as usize) += g * d.da;
                *adj.get_unchecked_mut(d.b as usize) += g * d.db;
            }
        }
    }
}

pub(crate) fn w2(bench: &mut Bench) {
    let mut t = Tape::default();
    let mut w = WEIGHTS;
    let mut it = 0;
    bench.training("w2a", "guessNextNumber", || {
        let (x, y) = black_box(SAMPLES[it % 4]);
        it += 1;
        t.nodes.clear();
        let v = w.map(|w| t.leaf(w));
        let mut p = t.mulc(v[0], x[0]);
        for k in 1..3 {
            let q = t.mulc(v[k], x[k]);
            p = t.add(p, q);
        }
        p = t.add(p, v[3]);
        let d = t.addc(p, -y);
        let l = t.mul(d, d);
        t.backward(l);
        for k in 0..4 {
            w[k] -= 0.01 * t.adj[v[k].i as usize];
        }
        black_box(l.v) as f64
    });
    let mut chain = || {
        t.nodes.clear();
        let (x, w) = (t.leaf(black_box(1.0)), t.leaf(black_box(1.00001)));
        let mut y = x;
        for _ in 0..10000 {
            y = t.mul(y, w);
        }
        t.backward(y);
        black_box([y.v as f64, t.adj[x.i as usize] as f64, t.adj[w.i as usize] as f64])
    };
    bench.check("w2b", "chain10000", &chain());
    bench.operations("w2b", "chain10000", 10_000, chain);
    let mut diamonds = || {
        t.nodes.clear();
        let x = t.leaf(black_box(-0.5));
        let mut y = x;
        for _ in 0..1000 {
            let s = t.mul(y, y);
            y = t.add(s, y);
        }
        t.backward(y);
        black_box([y.v as f64, t.adj[x.i as usize] as f64])
    };
    bench.check("w2c", "diamond1000", &diamonds());
    bench.operations("w2c", "diamond1000", 2_000, diamonds);
}
