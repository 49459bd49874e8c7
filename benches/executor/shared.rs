//! Contention of two threads that each evaluate a graph over the same weights.
//!
//! Each figure is the time of the slower thread while both run, relative to its time alone. For
//! comparison the same is measured with separate weights for each thread, and with plain
//! arithmetic, which gives the slow-down of the machine.
//!
//! | variant | work |
//! |---|---|
//! | `predict` | forward |
//! | `backward` | forward, and `Tape::backward`: the deltas are built but not evaluated; no commit |
//! | `refused` | forward, all gradients, and an optimizer that rejects the step; no commit |
//! | `train` | forward, all gradients, and the commit |

use crate::busy::Busy;
use crate::report::{Figure, Goal, Report, number};
use crate::scalars::TINY_RATE;
use crate::timing::{Clock, Seen};
use dl::prelude::*;
use dl::{Chunk, Result};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

const WEIGHTS: usize = 100;

#[derive(Clone)]
struct Net {
    weights: Vec<Weight<f32>>,
}

impl Net {
    fn new() -> Self {
        Net { weights: (0..WEIGHTS).map(|_| Weight::new(black_box(0.5_f32))).collect() }
    }
}

/// 1,000 products with one weight.
fn chain(net: &Net) -> Layer<f32> {
    (0..1_000).fold(Layer::constant(1.0_f32), |y, _| y * &net.weights[0])
}

/// 1,000 operations over all weights.
fn all_weights(net: &Net) -> Layer<f32> {
    five_times(Layer::constant(0.5), net)
}

/// [`all_weights`] in a lazy function that first extracts a value.
fn lazily(net: &Net) -> Layer<f32> {
    of(&Layer::constant(0.5), net)
}

#[differentiable]
fn of(x: &Layer<f32>, net: &Net) -> Layer<f32> {
    if !x > 0.0 { five_times(x.clone(), net) } else { x.clone() }
}

fn five_times(x: Layer<f32>, net: &Net) -> Layer<f32> {
    (0..5).flat_map(|_| &net.weights).fold(x, |y, w| y * w + w)
}

/// An optimizer that returns an error for every step.
#[derive(Clone)]
struct RejectingOptimizer;

impl Optimizer for RejectingOptimizer {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Err(Error::invalid("refused"))
    }
}

fn predict(y: Layer<f32>) {
    black_box(y.predict().wait().expect("it succeeds"));
}

fn backward(y: Layer<f32>) {
    let tape = y.forward().wait().expect("it succeeds");
    drop(black_box(tape.backward(Do::now(1.0))));
}

fn refused(y: Layer<f32>) {
    black_box(y.train(&RejectingOptimizer).wait().expect_err("it is refused"));
}

fn train(y: Layer<f32>) {
    black_box(y.train(&Sgd::new(TINY_RATE)).wait().expect("it succeeds"));
}

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    report.section("Two threads over the same weights: time relative to one alone");
    for (name, text, graph) in [
        ("chain", "chain over one weight", chain as fn(&Net) -> Layer<f32>),
        ("net", "net of 100 weights", all_weights),
        ("lazy-net", "net of 100 weights, in a lazy function", lazily),
    ] {
        for (way, run) in
            [("predict", predict as fn(Layer<f32>)), ("backward", backward), ("refused", refused), ("train", train)]
        {
            let (left, right) = (Net::new(), Net::new());
            let use_left = || run(graph(&left));
            let use_right = || run(graph(&right));
            let rounds: Vec<[f64; 3]> = (0..clock.rounds)
                .map(|_| {
                    let [alone] = side_by_side(clock.slice, [&use_left]);
                    let same = side_by_side(clock.slice, [&use_left, &use_left]);
                    let own = side_by_side(clock.slice, [&use_left, &use_right]);
                    [alone, slower(same), slower(own)]
                })
                .collect();
            let own = Seen::of(&rounds, |[alone, _, own]| own / alone);
            let [own, own_fastest] = [own.median, own.fastest].map(number);
            let alone = number(Seen::of(&rounds, |[alone, ..]| alone * 1e6).median);
            report.figure(Figure {
                workload: "shared",
                variant: &format!("{name};{way}"),
                threads: 2,
                text: &format!("{text}: {way}"),
                seen: Seen::of(&rounds, |[alone, same, _]| same / alone),
                unit: "times",
                goal: Goal::AtMost(1.2),
                also: format!("weights of its own: {own}, {own_fastest}; alone: {alone} µs"),
            });
        }
    }
    let kernel = Busy::for_nanoseconds(200_000.0);
    let compute = || {
        black_box(kernel.compute(black_box(1.0)));
    };
    let rounds: Vec<[f64; 2]> = (0..clock.rounds)
        .map(|_| {
            let [alone] = side_by_side(clock.slice, [&compute]);
            [alone, slower(side_by_side(clock.slice, [&compute, &compute]))]
        })
        .collect();
    report.figure(Figure {
        workload: "shared",
        variant: "machine",
        threads: 2,
        text: "the machine: plain arithmetic",
        seen: Seen::of(&rounds, |[alone, both]| both / alone),
        unit: "times",
        goal: Goal::None,
        also: String::new(),
    });
}

fn slower([left, right]: [f64; 2]) -> f64 {
    left.max(right)
}

/// Seconds per call of each function, all running concurrently on a thread each.
fn side_by_side<const N: usize>(slice: f64, all: [&(dyn Fn() + Sync); N]) -> [f64; N] {
    let barrier = Barrier::new(N);
    std::thread::scope(|scope| {
        all.map(|run| {
            scope.spawn(|| {
                (0..3).for_each(|_| run());
                barrier.wait();
                for_a_while(slice / 4.0, run); // until the scheduler has assigned a core to each thread
                for_a_while(slice, run)
            })
        })
        .map(|thread| thread.join().expect("it succeeds"))
    })
}

/// Seconds per call, measured for at least `seconds`.
fn for_a_while(seconds: f64, run: &dyn Fn()) -> f64 {
    let (start, mut calls) = (Instant::now(), 0);
    while calls == 0 || start.elapsed().as_secs_f64() < seconds {
        run();
        calls += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(calls)
}
