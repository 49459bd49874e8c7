//! The paper's net with one column, forward only, on one thread. A batch of 16 is computed as in
//! training; a single image as products of a row and a matrix.
use crate::kernel::*;
use crate::paper::{Lin, first_fwd, fwd};
use common::{Bench, Numbers};
use std::hint::black_box;

struct Net {
    column: [Lin; 2],
    coarse: Lin,
    fine: Vec<[Lin; 3]>,
}

/// y[64 or LD] = act(x w + b), for one row
#[inline(always)]
unsafe fn row<const NV: usize, const RELU: bool>(l: &Lin, k: usize, x: *const f32, y: *mut f32) {
    let mut t = load_tile::<1, NV>(l.b.p(), 0);
    kern::<1, NV>(k, x, 0, 1, l.w.p(), 16 * NV, &mut t);
    for v in 0..NV {
        st(y.add(16 * v), if RELU { relu(t[0][v]) } else { t[0][v] });
    }
}

fn highest(scores: impl Iterator<Item = f32>) -> usize {
    scores.enumerate().fold((0, f32::MIN), |best, (at, score)| if score > best.1 { (at, score) } else { best }).0
}

impl Net {
    /// One image: the coarse class, and the logits of its fine classes in `y`.
    #[inline(never)]
    unsafe fn one(&self, x: *const f32, [h, z, y]: [&Buf; 3]) -> usize {
        row::<4, true>(&self.column[0], 3072, x, z.p());
        row::<4, true>(&self.column[1], 64, z.p(), h.p());
        row::<2, false>(&self.coarse, 64, h.p(), y.p());
        let class = highest(y.slice()[..20].iter().copied());
        let fine = &self.fine[class];
        row::<4, true>(&fine[0], 64, h.p(), z.p());
        row::<4, true>(&fine[1], 64, z.p(), h.p());
        row::<1, false>(&fine[2], 64, h.p(), y.p());
        class
    }

    /// 16 images: the coarse class with the highest summed logit, and the logits
    /// `[classes, images]` in `y`.
    #[inline(never)]
    unsafe fn sixteen(&self, x: *const f32, [h, z, y]: [&Buf; 3]) -> usize {
        first_fwd(self.column[0].w.p(), x, h.p(), 0, 3072);
        for o in (0..64).step_by(16) {
            let bias = ld(self.column[0].b.p().add(o));
            let mut r: [V; 16] = std::array::from_fn(|s| relu(add(bias, ld(h.p().add(s * 64 + o)))));
            transpose_regs(&mut r);
            for (s, r) in r.into_iter().enumerate() {
                st(z.p().add((o + s) * 16), r);
            }
        }
        fwd::<64, 64, 64, TALL, true>(&self.column[1], z.p(), h.p());
        fwd::<64, 20, 32, TALL_OF_20, false>(&self.coarse, h.p(), y.p());
        let class = highest((0..20).map(|c| hsum(ld(y.p().add(c * 16)))));
        let fine = &self.fine[class];
        fwd::<64, 64, 64, TALL, true>(&fine[0], h.p(), z.p());
        fwd::<64, 64, 64, TALL, true>(&fine[1], z.p(), h.p());
        fwd::<64, 5, 16, 5, false>(&fine[2], h.p(), y.p());
        class
    }
}

pub(crate) fn w8(bench: &mut Bench) {
    let mut n = Numbers::new(1);
    let xs: Vec<Buf> = (0..20).map(|_| Buf::of(&n.uniform(16 * 3072, 1.0))).collect();
    let net = Net {
        column: [Lin::new(&mut n, 3072, 64, 64), Lin::new(&mut n, 64, 64, 64)],
        coarse: Lin::new(&mut n, 64, 20, 32),
        fine: (0..20)
            .map(|_| [Lin::new(&mut n, 64, 64, 64), Lin::new(&mut n, 64, 64, 64), Lin::new(&mut n, 64, 5, 16)])
            .collect(),
    };
    let buffers = [(); 3].map(|()| Buf::new(64 * 16));
    let [h, z, y] = &buffers;
    let image = |i: usize| unsafe { xs[i / 16].p().add(i % 16 * 3072) };
    let one = |i: usize| unsafe { net.one(image(i % 320), [h, z, y]) };
    let sixteen = |i: usize| unsafe { net.sixteen(xs[i % 20].p(), [h, z, y]) };
    let sum = |v: &[f32]| v.iter().map(|&v| v as f64).sum::<f64>();
    let (mut classes, mut logits) = (0, 0.0);
    for i in 0..20 {
        classes += one(i);
        logits += sum(&y.slice()[..5]);
    }
    bench.check("w8", "batch=1", &[classes as f64, logits]);
    let mut turn = 0;
    bench.latency("w8", "batch=1", || {
        turn += 1;
        black_box(one(turn));
    });
    let (mut classes, mut logits) = (0, 0.0);
    for i in 0..20 {
        classes += sixteen(i);
        logits += sum(&y.slice()[..5 * 16]);
    }
    bench.check("w8", "batch=16", &[classes as f64, logits]);
    bench.latency("w8", "batch=16", || {
        turn += 1;
        black_box(sixteen(turn));
    });
}
