//! Overhead of scalar operations, and whether a second thread does them any harm: three workloads that other libraries run as well
//! (`benches/peers/scalars`), each built anew, run forward, differentiated, stepped and dropped every time.

use crate::report::{Figure, Goal, Report, check, number};
use crate::timing::{Clock, median};
use dl::prelude::*;
use std::hint::black_box;

/// Small enough that a step changes no weight of these workloads, though it is computed and written.
pub(crate) const TINY_RATE: f64 = 1e-30;

const CHAIN: usize = 10_000;
const DIAMONDS: usize = 1_000;
const SAMPLES: [([f32; 3], f32); 4] =
    [([0.0, 0.1, 0.2], 0.3), ([0.3, 0.6, 0.9], 1.2), ([1.3, 1.5, 1.7], 1.9), ([0.2, 0.5, 0.8], 1.1)];

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    checks();
    report.section("Scalars, anew each time: built, forward, backward, step, dropped (one thread)");
    let mut ratios = Vec::new();
    {
        let (one, two, ratio) = one_and_two(clock, guess_next_number);
        report.figure(Figure {
            workload: "w2a",
            variant: "guessNextNumber",
            threads: 1,
            text: "guess_next_number, training steps per second",
            value: 1.0 / one,
            unit: "it/s",
            goal: Goal::AtLeast(1e6),
            also: format!("two threads: {}", number(1.0 / two)),
        });
        report.row("w2a", "guessNextNumber", 2, 1.0 / two, "it/s");
        ratios.push(("w2a", "guess_next_number", ratio));
    }
    let sgd = Sgd::new(TINY_RATE);
    for (workload, variant, name, operations, run) in [
        ("w2b", "chain10000", "chain of 10,000 products, per operation", CHAIN, train_chain as fn(&Sgd)),
        ("w2c", "diamond1000", "1,000 diamonds y·y + y, per operation", 2 * DIAMONDS, train_diamonds),
    ] {
        let (one, two, ratio) = one_and_two(clock, || || run(&sgd));
        let nanoseconds = |seconds: f64| seconds * 1e9 / operations as f64;
        report.figure(Figure {
            workload,
            variant,
            threads: 1,
            text: name,
            value: nanoseconds(one),
            unit: "ns/op",
            goal: Goal::AtMost(60.0),
            also: format!("two threads: {:.1}", nanoseconds(two)),
        });
        report.row(workload, variant, 2, nanoseconds(two), "ns/op");
        ratios.push((workload, variant, ratio));
    }
    let x = Weight::new(1.0_f32);
    let w = Weight::new(1.00001_f32);
    for (variant, text, seconds) in [
        ("built", "the chain, built and dropped only", alone(clock, || drop(black_box(chain(&x, &w))))),
        (
            "predict",
            "the chain, built, predicted and dropped",
            alone(clock, || drop(black_box(chain(&x, &w).predict().wait()))),
        ),
    ] {
        report.figure(Figure {
            workload: "chain",
            variant,
            threads: 1,
            text,
            value: seconds * 1e9 / CHAIN as f64,
            unit: "ns/op",
            goal: Goal::None,
            also: String::new(),
        });
    }
    report.section("The same on two threads: time relative to one");
    for (workload, name, value) in ratios {
        report.figure(Figure {
            workload: "two-threads",
            variant: workload,
            threads: 2,
            text: name,
            value,
            unit: "times",
            goal: Goal::AtMost(1.05),
            also: String::new(),
        });
    }
}

/// Seconds per call on one thread and on two, and the ratio of the second to the first.
fn one_and_two<F: FnMut() + Send>(clock: &Clock, workload: impl Fn() -> F) -> (f64, f64, f64) {
    let rounds = clock.in_turns([clock.on(&clock.one, workload()), clock.on(&clock.two, workload())]);
    let of = |part: fn(&[f64; 2]) -> f64| median(rounds.iter().map(part));
    (of(|[one, _]| *one), of(|[_, two]| *two), of(|[one, two]| two / one))
}

/// Seconds per call on one thread.
fn alone(clock: &Clock, run: impl FnMut() + Send) -> f64 {
    median(clock.in_turns([clock.on(&clock.one, run)]).into_iter().flatten())
}

/// Training steps on the samples in turn, with weights of its own.
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
    (0..DIAMONDS).fold(x.layer(), |y, _| &y * &y + &y)
}

fn train_chain(sgd: &Sgd) {
    let [x, w] = [1.0_f32, 1.00001].map(|value| Weight::new(black_box(value)));
    black_box(chain(&x, &w).train(sgd).wait().expect("it succeeds"));
}

fn train_diamonds(sgd: &Sgd) {
    let x = Weight::new(black_box(-0.5_f32));
    black_box(diamonds(&x).train(sgd).wait().expect("it succeeds"));
}

/// The first and the tenth loss, or value and gradients.
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
