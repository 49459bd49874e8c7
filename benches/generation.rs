//! Attention block by block beside the whole matrix of scores, and generation with a cache:
//! `cargo bench --bench generation`. `peers/python/generation.py` generates with the same network.

use dl::nd::init::{self, rng, uniform};
use dl::nd::{Attention, scaled_dot_product_attention_with};
use dl::nn::{Cache, DecoderBlock, Embedding, Linear, Past, RmsNorm};
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

fn attention() {
    println!("attention, [batch, heads, length, width]; µs, and the ratio to the whole matrix");
    for shape in [[16, 4, 16, 16], [8, 4, 64, 32], [8, 8, 256, 64], [2, 8, 1024, 64], [1, 1, 8192, 64]] {
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

const WIDTH: usize = 256;
const HIDDEN: usize = 704;
const WORDS: usize = 256;
const LAYERS: usize = 6;
const TOKENS: usize = 256;

struct Decoder {
    words: Embedding,
    blocks: Vec<DecoderBlock>,
    norm: RmsNorm,
    output: Linear,
}

impl Decoder {
    fn next(&self, past: &Past) -> NdLayer {
        let blocks = self.blocks.iter().enumerate();
        let x = blocks.fold(self.words.of(past.tokens()), |x, (number, block)| block.of_cached(x, past.layer(number)));
        self.output.of(self.norm.of(past.last(x)))
    }
}

fn generation() -> dl::Result<()> {
    let rng = &mut init::rng(1);
    let decoder = Decoder {
        words: Embedding::new(WORDS, WIDTH, rng)?,
        blocks: (0..LAYERS).map(|_| DecoderBlock::new(WIDTH, 8, 8, HIDDEN, rng)).collect::<dl::Result<_>>()?,
        norm: RmsNorm::new(WIDTH)?,
        output: Linear::without_bias(WIDTH, WORDS, rng)?,
    };
    // all products of a token with the weights, one after the other
    let weights: Vec<NdWeight> = decoder
        .blocks
        .iter()
        .flat_map(|block| {
            let (attention, mlp) = (&block.self_attn, &block.mlp);
            [&attention.q_proj, &attention.k_proj, &attention.v_proj, &attention.o_proj, &mlp.gate_proj, &mlp.up_proj]
                .into_iter()
                .chain([&mlp.down_proj])
                .map(|linear| linear.weight.clone())
        })
        .chain([decoder.output.weight.clone()])
        .collect();
    let operands: Vec<Nd> = weights.iter().map(|w| uniform([1, w.value().shape()[0]], -1.0, 1.0, rng)).collect();
    let products = || -> Vec<NdLayer> { operands.iter().zip(&weights).map(|(x, w)| x.matmul(w)).collect() };
    let arithmetic = micros(201, || drop(Do::predict(products()).wait().expect("products")));
    let multiplications: usize = weights.iter().map(|w| w.value().len()).sum();

    let mut each = Vec::new();
    for _ in 0..5 {
        let cache = Cache::new(16 + TOKENS);
        let prompt: Vec<usize> = (0..16).map(|i| i * 7 % WORDS).collect();
        let mut unread = prompt;
        let start = Instant::now();
        for _ in 0..TOKENS {
            let scores = cache.predict(&[unread], |past| decoder.next(past)).wait()?.into_vec();
            let best = (0..WORDS).fold(0, |best, at| if scores[at] > scores[best] { at } else { best });
            unread = vec![best];
        }
        each.push(start.elapsed().as_secs_f64() * 1e6 / TOKENS as f64);
    }
    each.sort_by(f64::total_cmp);
    let token = each[2];
    println!("generation, width {WIDTH}, {LAYERS} layers, {TOKENS} tokens after 16:");
    println!("    {token:.0} µs a token, {:.0} tokens a second", 1e6 / token);
    println!(
        "    its {multiplications} multiplications with weights alone take {arithmetic:.0} µs ({:.1} GFLOP/s): {:.2} times that",
        2e-3 * multiplications as f64 / arithmetic,
        token / arithmetic
    );
    Ok(())
}

fn main() -> dl::Result<()> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    if !filter.starts_with("gen") {
        attention();
    }
    generation()
}
