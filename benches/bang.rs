//! The overhead of `!` (extraction) beyond the evaluation of its operand, and of a join of two:
//! `cargo bench --bench bang`.
//!
//! Each figure is the time difference of two loops that differ in the extractions only, divided by
//! their number: the median of many runs, and the fastest.

use dl::prelude::*;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 1_000;
const RUNS: usize = 401;

#[differentiable]
fn ready(x: &Layer<f64>, n: usize) -> Do<f64> {
    let mut sum = !x;
    for _ in 0..n {
        sum += !x;
    }
    Do::now(sum)
}

#[differentiable]
fn ready_join(x: &Layer<f64>, y: &Layer<f64>, n: usize) -> Do<f64> {
    let mut sum = !x + !y;
    for _ in 0..n {
        sum += !x + !y;
    }
    Do::now(sum)
}

#[differentiable]
fn chain(x: &Layer<f64>, n: usize) -> Do<f64> {
    let mut y = x.clone();
    for _ in 0..n {
        y = y * 0.999;
    }
    let sum = !y;
    Do::now(sum)
}

#[differentiable]
fn chain_with_bangs(x: &Layer<f64>, n: usize) -> Do<f64> {
    let mut y = x.clone();
    let mut sum = 0.0;
    for _ in 0..n {
        y = y * 0.999;
        sum += !y;
    }
    Do::now(sum)
}

#[differentiable]
fn two_chains(x: &Layer<f64>, n: usize) -> Do<f64> {
    let (mut y, mut z) = (x.clone(), x.clone());
    for _ in 0..n {
        y = y * 0.999;
        z = z * 0.998;
    }
    let sum = !y + !z;
    Do::now(sum)
}

#[differentiable]
fn two_chains_with_joins(x: &Layer<f64>, n: usize) -> Do<f64> {
    let (mut y, mut z) = (x.clone(), x.clone());
    let mut sum = 0.0;
    for _ in 0..n {
        y = y * 0.999;
        z = z * 0.998;
        sum += !y + !z;
    }
    Do::now(sum)
}

#[differentiable]
fn negations(x: &Layer<f64>, flag: &Flag, n: usize) -> Do<f64> {
    let mut count = !x;
    for _ in 0..n {
        let other = !black_box(flag).0;
        count += f64::from(u8::from(other));
    }
    Do::now(count)
}

#[differentiable]
fn no_negations(x: &Layer<f64>, flag: &Flag, n: usize) -> Do<f64> {
    let mut count = !x;
    for _ in 0..n {
        let other = black_box(flag).0;
        count += f64::from(u8::from(other));
    }
    Do::now(count)
}

#[derive(Clone)]
struct Flag(bool);

/// The times of `RUNS` runs in nanoseconds, sorted.
fn times(run: impl Fn() -> Do<f64>) -> Vec<f64> {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            black_box(run().wait().expect("it succeeds"));
            start.elapsed().as_nanos() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn report(name: &str, limit: f64, with: impl Fn() -> Do<f64>, without: impl Fn() -> Do<f64>) {
    let (with, without) = (times(with), times(without));
    let per = |a: f64, b: f64| (a - b) / ROUNDS as f64;
    let (median, fastest) = (per(with[RUNS / 2], without[RUNS / 2]), per(with[0], without[0]));
    println!("{name:<44} {median:>8.1} ns {fastest:>8.1} ns   (at most {limit} ns)");
}

fn main() {
    let (x, y) = (Layer::constant(1.0), Weight::new(2.0).layer());
    let flag = Flag(true);
    println!("{:<44} {:>11} {:>11}", "", "median", "fastest");
    report("extraction of an evaluated layer", 150.0, || ready(&x, ROUNDS), || ready(&x, 0));
    report("extraction, beyond evaluating its operand", 150.0, || chain_with_bangs(&x, ROUNDS), || chain(&x, ROUNDS));
    report("join of two evaluated layers", 300.0, || ready_join(&x, &y, ROUNDS), || ready_join(&x, &y, 0));
    report(
        "join of two, beyond evaluating them",
        300.0,
        || two_chains_with_joins(&x, ROUNDS),
        || two_chains(&x, ROUNDS),
    );
    report("`!` of a bool", 10.0, || negations(&x, &flag, ROUNDS), || no_negations(&x, &flag, ROUNDS));
}
