//! The overhead of a general node beyond its kernel (tensors, dynamic nodes, layers from
//! computations), and the cost of an extraction.
//!
//! Each figure is the time difference of two programs, divided by the number of nodes. One program
//! builds, evaluates and drops the nodes. The other does the user's part of the work by hand: it
//! runs the kernels, or boxes the closures and futures and polls them once.

use crate::report::{Figure, Goal, Report};
use crate::scalars::TINY_RATE;
use crate::timing::{Clock, Seen};
use dl::prelude::*;
use dl::{At, Primitive, Result};
use std::future::ready;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

const NODES: usize = 1_000;

type Row = Nd<f32, Ix1>;

/// The negative of a number, as a user primitive.
pub(crate) struct Negative;

impl Primitive for Negative {
    type Operands = (Layer<f32>,);
    type Output = f32;

    fn name(&self) -> &'static str {
        "negative"
    }

    fn value(&self, (x,): (&f32,)) -> Result<f32> {
        Ok(-x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f32>>,) {
        (Some(-at.delta),)
    }

    fn cost(&self, _: (&f32,)) -> f64 {
        1.0
    }
}

/// The negative of a small tensor, as a user primitive.
struct NegativeRow;

impl Primitive for NegativeRow {
    type Operands = (Layer<Row>,);
    type Output = Row;

    fn name(&self) -> &'static str {
        "negative"
    }

    fn value(&self, (x,): (&Row,)) -> Result<Row> {
        Ok(x.view().mapv(|x| -x).into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Row>>,) {
        (Some(Layer::apply(NegativeRow, (at.delta.clone(),))),)
    }

    fn cost(&self, _: (&Row,)) -> f64 {
        30.0
    }
}

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    report.section("General nodes beyond their kernels, predicted (one thread)");
    let mut node = |variant: &str, text: &str, seen: Seen, goal: Goal| {
        report.figure(Figure {
            workload: "nodes",
            variant,
            threads: 1,
            text,
            seen,
            unit: "ns",
            goal,
            also: String::new(),
        });
    };
    let goal = || Goal::AtMost(150.0);
    node("primitive-f32", "user primitive on f32", primitive(clock), goal());
    node("primitive-nd", "user primitive on a tensor of 4", primitive_on_rows(clock), goal());
    node("tanh-nd", "tanh of a tensor of 4", tanh_of_rows(clock), goal());
    node("train-nd", "user primitive on a tensor, trained, with both kernels", train_rows(clock), Goal::None);
    node("dynamic", "dynamic node that resolves to another layer", dynamic(clock), goal());
    node("dynamic-op", "dynamic node that builds a product, beyond the product", dynamic_with_product(clock), goal());
    node("async", "layer from a `Do`", computations(clock), goal());
    node("async-tape", "layer from a `Do` of a tape: the `forward` of its operand", forwards(clock), Goal::None);

    report.section("Extractions in a lazy function (one thread)");
    let mut extract = |variant: &str, text: &str, seen: Seen, goal: Goal| {
        report.figure(Figure {
            workload: "extract",
            variant,
            threads: 1,
            text,
            seen,
            unit: "ns",
            goal,
            also: String::new(),
        });
    };
    let x = Layer::constant(black_box(1.0_f32));
    let run = |bangs: Do<f32>| {
        black_box(bangs.wait().expect("it succeeds"));
    };
    let finished = clock.nanoseconds_beyond(NODES, || run(bangs_of(&x, NODES)), || run(bangs_of(&x, 0)));
    extract("finished", "of a finished layer", finished, Goal::AtMost(50.0));
    let fresh = clock.nanoseconds_beyond(NODES, || run(chain_with_bangs(&x, NODES)), || run(chain_with_bangs(&x, 0)));
    extract("fresh", "of a fresh product, with building and evaluating it", fresh, Goal::AtMost(300.0));
    let beyond =
        clock.nanoseconds_beyond(NODES, || run(chain_with_bangs(&x, NODES)), || run(chain_with_a_bang(&x, NODES)));
    extract("fresh-beyond", "of a fresh product, beyond building and evaluating it", beyond, Goal::None);
}

fn predict<T: dl::Data>(y: Layer<T>) {
    black_box(y.predict().wait().expect("it succeeds"));
}

fn row() -> Row {
    black_box(Nd::from([0.1_f32, -0.2, 0.3, -0.4]))
}

/// Applies a kernel repeatedly to its own result.
fn kernels<T>(x: T, kernel: impl Fn(&T) -> Result<T>) {
    black_box((0..NODES).fold(x, |x, _| black_box(kernel(&x).expect("it succeeds"))));
}

fn primitive(clock: &Clock) -> Seen {
    clock.nanoseconds_beyond(
        NODES,
        || predict((0..NODES).fold(Layer::constant(black_box(0.5)), |y, _| Layer::apply(Negative, (y,)))),
        || kernels(black_box(0.5), |x| Negative.value((x,))),
    )
}

fn primitive_on_rows(clock: &Clock) -> Seen {
    clock.nanoseconds_beyond(
        NODES,
        || predict((0..NODES).fold(Layer::constant(row()), |y, _| Layer::apply(NegativeRow, (y,)))),
        || kernels(row(), |x| NegativeRow.value((x,))),
    )
}

fn tanh_of_rows(clock: &Clock) -> Seen {
    clock.nanoseconds_beyond(
        NODES,
        || predict((0..NODES).fold(Layer::constant(row()), |y, _| y.tanh())),
        || kernels(row(), |x| Ok(x.view().mapv(f32::tanh).into())),
    )
}

fn train_rows(clock: &Clock) -> Seen {
    let (w, sgd) = (Weight::new(row()), Sgd::new(TINY_RATE));
    clock.nanoseconds_beyond(
        NODES,
        || {
            let y = (0..NODES).fold(w.layer(), |y, _| Layer::apply(NegativeRow, (y,)));
            black_box(y.train(&sgd).wait().expect("it succeeds"));
        },
        || {},
    )
}

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Does the minimal work of a runtime for a body: boxes the closure and its future, and polls the
/// future once.
fn poll_once<T: 'static, F>(body: impl Fn() -> F + 'static) -> T
where
    F: Future<Output = Result<T>> + Send + 'static,
{
    let body: Box<dyn Fn() -> Boxed<T>> = Box::new(move || Box::pin(body()));
    let mut future = black_box(body)();
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.expect("it succeeds"),
        Poll::Pending => unreachable!("the body is ready"),
    }
}

/// Clones its operand, as the body of a dynamic node must.
fn clone_operand(y: Layer<f32>) -> impl Fn() -> std::future::Ready<Result<Layer<f32>>> + Send + Sync + 'static {
    move || ready(Ok(y.clone()))
}

fn dynamic(clock: &Clock) -> Seen {
    let x = Layer::constant(black_box(0.5_f32));
    clock.nanoseconds_beyond(
        NODES,
        || predict((0..NODES).fold(x.clone(), |y, _| Layer::dynamic(clone_operand(y)))),
        || {
            drop(black_box((0..NODES).fold(x.clone(), |y, _| poll_once(clone_operand(y)))));
        },
    )
}

fn dynamic_with_product(clock: &Clock) -> Seen {
    let x = Layer::constant(black_box(0.5_f32));
    clock.nanoseconds_beyond(
        NODES,
        || {
            predict((0..NODES).fold(x.clone(), |y, _| {
                let body = move || ready(Ok(&y * 0.999));
                Layer::dynamic(body)
            }));
        },
        || {
            let y = (0..NODES).fold(x.clone(), |y, _| {
                let body = move || ready(Ok(&y * 0.999));
                poll_once(body)
            });
            predict(y);
        },
    )
}

/// A sum of computed leaves, compared with a sum of one leaf repeated as often.
fn computations(clock: &Clock) -> Seen {
    let x = Layer::constant(black_box(0.5_f32));
    let leaf = |n: usize| {
        let value = black_box(n as f32);
        move || ready(Ok(value))
    };
    clock.nanoseconds_beyond(
        NODES,
        || predict((0..NODES).map(|n| Layer::from(Do::from_fn(leaf(n)))).sum::<Layer<f32>>()),
        || {
            let once = |n| {
                black_box(poll_once(leaf(n)));
                x.clone()
            };
            predict((0..NODES).map(once).sum::<Layer<f32>>());
        },
    )
}

fn forwards(clock: &Clock) -> Seen {
    let x = Layer::constant(black_box(0.5_f32));
    clock.nanoseconds_beyond(
        NODES,
        || predict((0..NODES).fold(x.clone(), |y, _| Layer::from(y.forward()))),
        || {
            drop(black_box((0..NODES).fold(x.clone(), |y, _| poll_once(clone_operand(y)))));
        },
    )
}

#[differentiable]
fn bangs_of(x: &Layer<f32>, n: usize) -> Do<f32> {
    let mut sum = !x;
    for _ in 0..n {
        sum += !x;
    }
    Do::now(sum)
}

#[differentiable]
fn chain_with_bangs(x: &Layer<f32>, n: usize) -> Do<f32> {
    let mut y = x.clone();
    let mut sum = !x;
    for _ in 0..n {
        y = y * 0.999;
        sum += !y;
    }
    Do::now(sum)
}

#[differentiable]
fn chain_with_a_bang(x: &Layer<f32>, n: usize) -> Do<f32> {
    let mut y = x.clone();
    for _ in 0..n {
        y = y * 0.999;
    }
    let sum = !x + !y;
    Do::now(sum)
}
