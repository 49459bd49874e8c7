//! One loop for the value and the four gradients.
use crate::{kernel::*, team::Team};
use common::{Bench, Numbers};
use std::hint::black_box;

const N: usize = 1 << 20;

/// The value and the gradients of elements `lo..hi`.
unsafe fn pass(v: &[Buf; 4], g: &[Buf; 4], lo: usize, hi: usize) -> f64 {
    let mut total = 0f64;
    for block in (lo..hi).step_by(4096) {
        let mut sum = [set(0.0); 2];
        for i in (block..(block + 4096).min(hi)).step_by(32) {
            for (j, sum) in sum.iter_mut().enumerate() {
                let i = i + 16 * j;
                let (a, b, c, d) = (ld(v[0].p().add(i)), ld(v[1].p().add(i)), ld(v[2].p().add(i)), ld(v[3].p().add(i)));
                let t = tanh(fma(a, b, mul(c, d)));
                let e = exp(sub(set(0.0), a));
                let y = mul(t, e);
                *sum = add(*sum, y);
                let du = fnma(y, t, e); // e · (1 - t²)
                st(g[0].p().add(i), sub(mul(du, b), y));
                st(g[1].p().add(i), mul(du, a));
                st(g[2].p().add(i), mul(du, d));
                st(g[3].p().add(i), mul(du, c));
            }
        }
        total += hsum(add(sum[0], sum[1])) as f64;
    }
    total
}

pub(crate) fn w3(bench: &mut Bench, team: &Team) {
    let mut numbers = Numbers::new(3);
    let v = [0; 4].map(|_| Buf::of(&numbers.uniform(N, 1.0)));
    let g = [0; 4].map(|_| Buf::new(N));
    let parts = Buf::new(16 * team.n);
    let step = || {
        team.run(&|t| unsafe {
            let (lo, hi) = (N / team.n * t, N / team.n * (t + 1));
            *parts.p().add(16 * t) = pass(&v, &g, lo, hi) as f32;
        });
        (0..team.n).map(|t| parts.slice()[16 * t] as f64).sum::<f64>()
    };
    let value = step();
    bench.check("w3", "elementwise1M", &[value, g[0].slice().iter().map(|&v| v as f64).sum()]);
    bench.milliseconds("w3", "elementwise1M", || {
        black_box(step());
    });
}
