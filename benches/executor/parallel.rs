//! The speed-up by a second thread on independent branches of compute-bound kernels.
//!
//! `backward` is the time of the deltas and the step only. For comparison the same kernels run on
//! rayon without layers, which gives the speed-up of the machine.

use crate::busy::Busy;
use crate::report::{Figure, Goal, Report, number};
use crate::scalars::TINY_RATE;
use crate::timing::{Clock, Measurement, Seen};
use dl::prelude::*;
use rayon::ThreadPool;
use std::hint::black_box;
use std::time::Instant;

/// The sum of independent branches, each a chain of kernels on a weight of its own.
struct Branches {
    weights: Vec<Weight<f32>>,
    kernels: usize,
    kernel: Busy,
}

impl Branches {
    fn new(branches: usize, kernels: usize, nanoseconds: f64) -> Self {
        let weights = (0..branches).map(|_| Weight::new(black_box(1.0))).collect();
        Branches { weights, kernels, kernel: Busy::for_nanoseconds(nanoseconds) }
    }

    fn layer(&self) -> Layer<f32> {
        let branch = |w: &Weight<f32>| (0..self.kernels).fold(w.layer(), |y, _| Layer::apply(self.kernel, (y,)));
        self.weights.iter().map(branch).sum()
    }

    fn without_layers(&self) {
        rayon::scope(|scope| {
            for _ in &self.weights {
                scope.spawn(|_| {
                    black_box((0..self.kernels).fold(black_box(1.0), |x, _| self.kernel.compute(x)));
                });
            }
        });
    }
}

/// The sum of small networks on the same input, each of four products with an activation.
struct Networks {
    input: Nd,
    weights: Vec<[NdWeight; 4]>,
}

impl Networks {
    fn new(networks: usize, rows: usize) -> Self {
        let mut rng = dl::nd::init::rng(1);
        let input = dl::nd::init::normal([rows, 64], 0.0, 1.0, &mut rng);
        let mut weight = |_| Weight::new(dl::nd::init::he_normal([64, 64], &mut rng));
        Networks { input, weights: (0..networks).map(|_| [0; 4].map(&mut weight)).collect() }
    }

    fn layer(&self) -> Layer<f32> {
        let network =
            |weights: &[NdWeight; 4]| weights.iter().fold(self.input.layer(), |y, w| y.matmul(w).relu()).sum();
        self.weights.iter().map(network).sum()
    }
}

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    report.section("Parallel speed: two threads relative to one");
    for (name, text, goal, branches) in [
        ("two-branches", "2 branches of 1 ms", 1.9, Branches::new(2, 1, 1e6)),
        ("subnets", "20 branches of 5 kernels of 4 µs", 1.6, Branches::new(20, 5, 4e3)),
    ] {
        let machine = || branches.without_layers();
        let machine = [clock.on(&clock.one, machine), clock.on(&clock.two, machine)];
        speed_up(clock, report, &format!("{name};machine"), &format!("{text}: without layers"), Goal::None, machine);
        three_ways(clock, report, name, text, goal, || branches.layer());
    }
    // products of about 20 µs; and of about 5 µs, too cheap to offload, which must not get slower
    // by the second thread
    for (name, rows, goal) in [("networks", 64, 1.6), ("small-networks", 16, 1.0 / 1.05)] {
        let networks = Networks::new(20, rows);
        let text = format!("20 networks of 4 products [{rows}, 64] × [64, 64]");
        three_ways(clock, report, name, &text, goal, || networks.layer());
    }
}

fn three_ways(
    clock: &Clock,
    report: &mut Report,
    name: &str,
    text: &str,
    goal: f64,
    graph: impl Fn() -> Layer<f32> + Copy + Send + Sync,
) {
    let sgd = &Sgd::new(TINY_RATE);
    let pools = [&clock.one, &clock.two];
    let forward = move || {
        black_box(graph().predict().wait().expect("it succeeds"));
    };
    let train = move || {
        black_box(graph().train(sgd).wait().expect("it succeeds"));
    };
    for (way, measurements) in [
        ("forward", pools.map(|pool| clock.on(pool, forward))),
        ("backward", pools.map(|pool| backward_on(clock, pool, graph))),
        ("train", pools.map(|pool| clock.on(pool, train))),
    ] {
        speed_up(clock, report, &format!("{name};{way}"), &format!("{text}: {way}"), Goal::AtLeast(goal), measurements);
    }
}

/// Measures the backward pass only; the clock is stopped during the forward pass.
fn backward_on<'a>(
    clock: &Clock,
    pool: &'a ThreadPool,
    graph: impl Fn() -> Layer<f32> + Send + Sync + 'a,
) -> Measurement<'a> {
    let (slice, sgd) = (clock.slice, Sgd::new(TINY_RATE));
    Box::new(move || {
        pool.install(|| {
            let (mut seconds, mut calls) = (0.0, 0);
            while seconds < slice {
                let tape = graph().forward().wait().expect("it succeeds");
                let start = Instant::now();
                tape.backward(Do::now(1.0)).step(&sgd).wait().expect("it succeeds");
                seconds += start.elapsed().as_secs_f64();
                calls += 1;
            }
            seconds / f64::from(calls)
        })
    })
}

fn speed_up(
    clock: &Clock,
    report: &mut Report,
    variant: &str,
    text: &str,
    goal: Goal,
    one_and_two: [Measurement<'_>; 2],
) {
    let rounds = clock.in_turns(one_and_two);
    let [one, two] = [0, 1].map(|at| number(Seen::of(&rounds, |times| times[at] * 1e6).median));
    let best = rounds.iter().map(|[one, two]| one / two).fold(0.0, f64::max);
    report.figure(Figure {
        workload: "parallel",
        variant,
        threads: 2,
        text,
        seen: Seen::of(&rounds, |[one, two]| one / two),
        unit: "times",
        goal,
        also: format!("best round: {best:.2}; {one} µs and {two} µs"),
    });
}
