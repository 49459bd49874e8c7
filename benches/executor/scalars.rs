//! The overhead of scalar operations on one thread and on two: three workloads that other libraries
//! run as well (`benches/peers`). Each run builds, evaluates, differentiates, steps and drops the
//! layers.

use crate::report::{Figure, Goal, Report, check, number};
use crate::timing::{Clock, Seen};
use dl::prelude::*;
use std::hint::black_box;

/// A learning rate so small that a step computes and writes the weights without changing them.
pub(crate) const TINY_RATE: f64 = 1e-30;

const CHAIN: usize = 10_000;
const DIAMONDS: usize = 1_000;
const SAMPLES: [([f32; 3], f32); 4] =
    [([0.0, 0.1, 0.2], 0.3), ([0.3, 0.6, 0.9], 1.2), ([1.3, 1.5, 1.7], 1.9), ([0.2, 0.5, 0.8], 1.1)];

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    checks();
    let sgd = Sgd::new(TINY_RATE);
    let workloads = [
        Workload {
            name: "w2a",
            variant: "guessNextNumber",
            text: "guess_next_number, training steps",
            rounds: one_and_two(clock, guess_next_number),
            figure: |seconds| 1.0 / seconds,
            unit: "it/s",
            goal: Goal::AtLeast(1e6),
        },
        Workload {
            name: "w2b",
            variant: "chain10000",
            text: "chain of 10,000 products, an operation",
            rounds: one_and_two(clock, || || train_chain(&sgd)),
            figure: per_product,
            unit: "ns/op",
            goal: Goal::AtMost(60.0),
        },
        Workload {
            name: "w2c",
            variant: "diamond1000",
            text: "1,000 diamonds y·y + y, an operation",
            rounds: one_and_two(clock, || || train_diamonds(&sgd)),
            figure: |seconds| seconds * 1e9 / (2 * DIAMONDS) as f64,
            unit: "ns/op",
            goal: Goal::AtMost(60.0),
        },
    ];
    report.section("Scalars: built, trained and dropped in each run (one thread)");
    workloads.iter().for_each(|workload| workload.overhead(report));
    let [x, w] = [1.0_f32, 1.00001].map(Weight::new);
    for (variant, text, rounds) in [
        ("built", "the chain, built and dropped only", one_thread(clock, || drop(black_box(chain(&x, &w))))),
        ("predict", "the chain, predicted", one_thread(clock, || drop(black_box(chain(&x, &w).predict().wait())))),
    ] {
        report.figure(Figure {
            workload: "chain",
            variant,
            threads: 1,
            text,
            seen: Seen::of(&rounds, |[seconds]| per_product(seconds)),
            unit: "ns/op",
            goal: Goal::None,
            also: String::new(),
        });
    }
    report.section("The same on two threads: time relative to one");
    workloads.iter().for_each(|workload| workload.two_threads(report));
}

/// A workload with its measurements.
struct Workload {
    name: &'static str,
    variant: &'static str,
    text: &'static str,
    /// Seconds on one thread and on two.
    rounds: Vec<[f64; 2]>,
    /// Converts seconds to the figure.
    figure: fn(f64) -> f64,
    unit: &'static str,
    goal: Goal,
}

impl Workload {
    fn overhead(&self, report: &mut Report) {
        let [one, two] = [0, 1].map(|at| Seen::of(&self.rounds, |seconds| (self.figure)(seconds[at])));
        report.figure(Figure {
            workload: self.name,
            variant: self.variant,
            threads: 1,
            text: self.text,
            seen: one,
            unit: self.unit,
            goal: self.goal,
            also: format!("two threads: {}, {}", number(two.median), number(two.fastest)),
        });
        report.row(self.name, self.variant, 2, two.median, self.unit);
    }

    fn two_threads(&self, report: &mut Report) {
        report.figure(Figure {
            workload: "two-threads",
            variant: self.name,
            threads: 2,
            text: self.text,
            seen: Seen::of(&self.rounds, |[one, two]| two / one),
            unit: "times",
            goal: Goal::AtMost(1.05),
            also: String::new(),
        });
    }
}

/// Nanoseconds per product of the chain.
fn per_product(seconds: f64) -> f64 {
    seconds * 1e9 / CHAIN as f64
}

/// Seconds per call on one thread and on two, in each round.
fn one_and_two<F: FnMut() + Send>(clock: &Clock, workload: impl Fn() -> F) -> Vec<[f64; 2]> {
    clock.in_turns([clock.on(&clock.one, workload()), clock.on(&clock.two, workload())])
}

/// Seconds per call on one thread, in each round.
fn one_thread(clock: &Clock, run: impl FnMut() + Send) -> Vec<[f64; 1]> {
    clock.in_turns([clock.on(&clock.one, run)])
}

/// Training steps on the samples in turns.
fn guess_next_number() -> impl FnMut() + Send {
    let mut step = guessing();
    move || {
        black_box(step());
    }
}

fn guessing() -> impl FnMut() -> f32 + Send {
    let [w0, w1, w2, bias] = [0.1_f32, 0.2, 0.3, 0.0].map(Weight::new);
    let sgd = Sgd::new(0.01);
    let mut samples = SAMPLES.into_iter().cycle();
    move || {
        let ([x0, x1, x2], answer) = black_box(samples.next().expect("a cycle does not end"));
        let guess = x0 * &w0 + x1 * &w1 + x2 * &w2 + &bias;
        let difference = guess - answer;
        (&difference * &difference).train(&sgd).wait().expect("it succeeds")
    }
}

fn chain(x: &Weight<f32>, w: &Weight<f32>) -> Layer<f32> {
    (0..CHAIN).fold(x.layer(), |y, _| y * w)
}

fn diamonds(x: &Weight<f32>) -> Layer<f32> {
    (0..DIAMONDS).fold(x.layer(), |y, _| &y * &y + y)
}

fn train_chain(sgd: &Sgd) {
    let [x, w] = [1.0_f32, 1.00001].map(|value| Weight::new(black_box(value)));
    black_box(chain(&x, &w).train(sgd).wait().expect("it succeeds"));
}

fn train_diamonds(sgd: &Sgd) {
    let x = Weight::new(black_box(-0.5_f32));
    black_box(diamonds(&x).train(sgd).wait().expect("it succeeds"));
}

/// Prints the first and the tenth loss, or value and gradients, for comparison.
fn checks() {
    let mut step = guessing();
    let losses: Vec<f32> = (0..10).map(|_| step()).collect();
    check("w2a", "guessNextNumber", &[losses[0], losses[9]]);
    let evaluate = |layers: &[Layer<f32>]| -> Vec<f32> {
        layers.iter().map(|layer| layer.predict().wait().expect("it succeeds")).collect()
    };
    let [x, w] = [1.0_f32, 1.00001].map(Weight::new);
    let y = chain(&x, &w);
    check("w2b", "chain10000", &evaluate(&[y.clone(), y.gradient(&x), y.gradient(&w)]));
    let x = Weight::new(-0.5_f32);
    let y = diamonds(&x);
    check("w2c", "diamond1000", &evaluate(&[y.clone(), y.gradient(&x)]));
}
