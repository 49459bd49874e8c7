//! The scalar workloads that all libraries run, how they are timed, and the rows and checks that are printed.
//!
//! | workload | what |
//! |---|---|
//! | `w2a` | `(w0·x0 + w1·x1 + w2·x2 + b − y)²` of four samples in turn, a step of gradient descent each; steps per second |
//! | `w2b` | `y = x`, then 10,000 times `y = y·w`; gradients of `x` and `w`; nanoseconds per operation |
//! | `w2c` | `y = −0.5`, then 1,000 times `y = y·y + y`; gradient of the start; nanoseconds per operation |
//!
//! All numbers are `f32`. Every graph is built anew, run forward and backward, and dropped in the timed part.

use std::hint::black_box;
use std::time::Instant;

/// Three numbers of a sequence and the next one.
pub const SAMPLES: [([f32; 3], f32); 4] =
    [([0.0, 0.1, 0.2], 0.3), ([0.3, 0.6, 0.9], 1.2), ([1.3, 1.5, 1.7], 1.9), ([0.2, 0.5, 0.8], 1.1)];
/// The weights and the bias in the beginning.
pub const WEIGHTS: [f32; 4] = [0.1, 0.2, 0.3, 0.0];
pub const RATE: f32 = 0.01;
pub const CHAIN: usize = 10_000;
pub const CHAIN_START: [f32; 2] = [1.0, 1.00001];
pub const DIAMONDS: usize = 1_000;
pub const DIAMOND_START: f32 = -0.5;

/// Runs and times the three workloads of a library.
///
/// `step` trains on a sample and returns the loss. `chain` returns the value and the gradients of `x` and `w`; `diamonds` the value
/// and the gradient.
pub fn run(
    peer: &str,
    mut step: impl FnMut([f32; 3], f32) -> f32,
    chain: impl FnMut() -> [f32; 3],
    diamonds: impl FnMut() -> [f32; 2],
) {
    let mut samples = SAMPLES.into_iter().cycle();
    let mut next = || {
        let (question, answer) = black_box(samples.next().expect("a cycle does not end"));
        step(question, answer)
    };
    let losses: Vec<f32> = (0..10).map(|_| next()).collect();
    check("w2a,guessNextNumber", peer, &[losses[0], losses[9]]);
    println!("w2a,guessNextNumber,1,{peer},{:.6},it/s", 1.0 / seconds_per_call(next));
    per_operation("w2b,chain10000", peer, CHAIN, chain);
    per_operation("w2c,diamond1000", peer, 2 * DIAMONDS, diamonds);
}

fn per_operation<const N: usize>(workload: &str, peer: &str, operations: usize, mut f: impl FnMut() -> [f32; N]) {
    check(workload, peer, &f());
    println!("{workload},1,{peer},{:.6},ns/op", seconds_per_call(f) * 1e9 / operations as f64);
}

fn check(workload: &str, peer: &str, results: &[f32]) {
    let results: Vec<String> = results.iter().map(|result| format!("{result:.6}")).collect();
    eprintln!("CHECK {workload},{peer},{}", results.join(" "));
}

/// Warms up, then the median of 25 rounds of about 30 ms.
fn seconds_per_call<T>(mut f: impl FnMut() -> T) -> f64 {
    const SLICE: f64 = 0.03;
    let (start, mut calls) = (Instant::now(), 0);
    while calls < 3 || start.elapsed().as_secs_f64() < SLICE {
        black_box(f());
        calls += 1;
    }
    let calls = (f64::from(calls) * SLICE / start.elapsed().as_secs_f64()).ceil() as u32;
    let mut rounds: Vec<f64> = (0..25)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                black_box(f());
            }
            start.elapsed().as_secs_f64() / f64::from(calls)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
