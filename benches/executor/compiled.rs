//! The overhead of a call of a compiled function beyond its kernels, and the cost of a plan.

use crate::report::{Figure, Goal, Report};
use crate::timing::{Clock, Seen};
use dl::prelude::*;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

const CALLS: usize = 1_000;
/// The number of operations of a plan.
const OPERATIONS: usize = 50;

type Row = Nd<f32, Ix1>;

fn row() -> Row {
    black_box(Nd::from([0.1_f32, -0.2, 0.3, -0.4]))
}

/// Four operations, which run as one kernel.
#[differentiable(compiled)]
fn four_operations(x: &Layer<Row>) -> Layer<Row> {
    (x * 0.5 + x).relu() - 0.125
}

/// The same by hand.
fn by_hand(x: &Row) -> Row {
    x.view().mapv(|x| (x * 0.5 + x).max(0.0) - 0.125).into()
}

/// A function with a plan for each `key`.
#[differentiable(compiled)]
fn of_key(x: &Layer<Row>, key: usize) -> Layer<Row> {
    let _ = key;
    (0..OPERATIONS / 2).fold(x.clone(), |y, _| (y * 0.5).tanh())
}

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    report.section("Compiled functions (one thread)");
    let mut figure = |variant: &str, text: &str, seen: Seen, unit: &'static str, goal: Goal| {
        let also = String::new();
        report.figure(Figure { workload: "compiled", variant, threads: 1, text, seen, unit, goal, also });
    };
    let call = clock.nanoseconds_beyond(
        CALLS,
        || {
            let y = (0..CALLS).fold(Layer::constant(row()), |y, _| four_operations(&y));
            black_box(y.predict().wait().expect("it succeeds"));
        },
        || {
            black_box((0..CALLS).fold(row(), |x, _| black_box(by_hand(&x))));
        },
    );
    figure("call", "call of four operations on a tensor of 4, predicted, beyond them", call, "ns", Goal::AtMost(300.0));
    let keys = AtomicUsize::new(0);
    let predict = |key: usize| {
        black_box(of_key(&row().into_layer(), key).predict().wait().expect("it succeeds"));
    };
    let Seen { median, fastest } =
        clock.nanoseconds_beyond(1, || predict(keys.fetch_add(1, Ordering::Relaxed)), || predict(0));
    let plan = Seen { median: median / 1e3, fastest: fastest / 1e3 };
    figure("plan", "plan of 50 operations and its first run, beyond a call of it", plan, "us", Goal::AtMost(200.0));
}
