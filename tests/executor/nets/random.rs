//! Random networks, generated from a seed: dynamic nodes with branches, loops and selections,
//! nested and in parallel.

use super::{Net, Witness};
use crate::jitter::Jitter;
use dl::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const WEIGHTS: usize = 6;
const DEPTH: u32 = 4;

/// The weights and the sources of delays that the networks use.
#[derive(Clone)]
struct Env {
    weights: Vec<Weight<f64>>,
    jitter: Jitter,
}

/// A network over x of this depth.
fn grow(seed: u64, depth: u32, x: &Layer<f64>, env: &Env) -> Layer<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let w = &env.weights[random.random_range(0..WEIGHTS)];
    if depth == 0 {
        return env.jitter.of(&(x * w).sin());
    }
    let seeds: [u64; 3] = random.random();
    let of = |seed| grow(seed, depth - 1, x, env);
    match random.random_range(0..7) {
        0 => (of(seeds[0]) * of(seeds[1])).tanh() + w,
        1 => of(seeds[0]) - of(seeds[1]) * w,
        2 => env.jitter.late(&of(seeds[0])),
        3 | 4 => branch(seeds, depth - 1, x, env),
        5 => repeat(seeds, depth - 1, x, env),
        _ => vote(seeds, depth - 1, x, env),
    }
}

#[differentiable]
fn branch(seeds: [u64; 3], depth: u32, x: &Layer<f64>, env: &Env) -> Layer<f64> {
    let score = grow(seeds[0], depth, x, env);
    if !score > 0.1 { grow(seeds[1], depth, &score, env) + score } else { score * grow(seeds[2], depth, x, env) }
}

#[differentiable]
fn repeat(seeds: [u64; 3], depth: u32, x: &Layer<f64>, env: &Env) -> Layer<f64> {
    let mut y = x * 0.5;
    let mut rounds = 0;
    while !y.clone() < 0.6 && rounds < 4 {
        y = y * 0.7 + grow(seeds[rounds % 3], depth / 2, &y, env) * 0.3 + 0.2;
        rounds += 1;
    }
    y.tanh()
}

/// Three bangs in one expression: the sum of the two largest values.
#[differentiable]
fn vote(seeds: [u64; 3], depth: u32, x: &Layer<f64>, env: &Env) -> Layer<f64> {
    let candidates = seeds.map(|seed| grow(seed, depth, x, env));
    let scores = !candidates;
    let mut ranking = [0, 1, 2];
    ranking.sort_by(|&a: &usize, &b: &usize| scores[b].total_cmp(&scores[a]));
    (&candidates[ranking[0]] + &candidates[ranking[1]]).tanh()
}

pub(crate) struct Random(Vec<Weight<f64>>);

impl Net for Random {
    type Loss = f64;
    const STEPS: usize = 16;

    fn new() -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        Random((0..WEIGHTS).map(|_| Weight::new(random.random_range(-1.0..1.0))).collect())
    }

    /// Each step trains another network.
    fn step(&self, step: usize, jitter: &Jitter, optimizer: &Witness) -> Do<f64> {
        let env = Env { weights: self.0.clone(), jitter: jitter.clone() };
        let x = jitter.of(&self.0[step % WEIGHTS].layer());
        let loss: Layer<f64> = (0..6).map(|i| grow(100 * step as u64 + i, DEPTH, &x, &env).tanh()).sum();
        (0.1 * loss).train(optimizer)
    }
}
