//! Attention block by block beside the whole matrix of scores: `cargo bench --bench attention`.

use dl::nd::init::{rng, uniform};
use dl::nd::{Attention, scaled_dot_product_attention_with};
use dl::prelude::*;
use std::time::Instant;

type Heads = NdWeight<Ix4>;

/// The median time of some calls in microseconds.
fn micros(calls: usize, mut call: impl FnMut()) -> f64 {
    call();
    let mut times: Vec<f64> = (0..calls)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[calls / 2]
}

/// The largest resident memory of the process so far, in MB; 0 where `/proc` is missing.
fn peak_megabytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) / 1024
}

fn main() {
    println!("attention, [batch, heads, length, width]; µs, and the ratio to the whole matrix");
    // The longest comes first: the peak of memory is that of all shapes so far.
    for shape in [[1, 1, 8192, 64], [16, 4, 16, 16], [8, 4, 64, 32], [8, 8, 256, 64], [2, 8, 1024, 64]] {
        let [q, k, v]: [Heads; 3] = [1, 2, 3].map(|seed| Weight::new(uniform(shape, -1.0, 1.0, &mut rng(seed))));
        let scale = (shape[3] as f32).sqrt().recip();
        let blocks = |settings: &Attention<f32>| scaled_dot_product_attention_with(&q, &k, &v, settings);
        let whole = || (&q * scale).matmul(k.transpose(-2, -1)).softmax(-1).matmul(&v);
        let (plain, causal, sgd) = (Attention::new(), Attention::new().causal(), Sgd::new(1e-9));
        let calls = if shape[2] > 256 { 5 } else { 101 };
        let predict =
            |layer: &dyn Fn() -> NdLayer<Ix4>| micros(calls, || drop(layer().predict().wait().expect("a value")));
        let train =
            |layer: &dyn Fn() -> NdLayer<Ix4>| micros(calls, || drop(layer().train(&sgd).wait().expect("a step")));
        let forms: [&dyn Fn() -> NdLayer<Ix4>; 3] = [&|| blocks(&plain), &|| blocks(&causal), &whole];
        let [p, pc, t, tc] = [predict(forms[0]), predict(forms[1]), train(forms[0]), train(forms[1])];
        println!(
            "{shape:?}  predict {p:.0}, causal {pc:.0}; train {t:.0}, causal {tc:.0}; peak {} MB",
            peak_megabytes()
        );
        if shape[2] <= 1024 {
            let (pw, tw) = (predict(forms[2]), train(forms[2]));
            println!("    whole: predict {pw:.0} ({:.2}), train {tw:.0} ({:.2})", p / pw, t / tw);
        }
    }
}
