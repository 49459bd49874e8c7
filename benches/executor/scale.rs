//! The time per node by the size of the graph: graphs of 10⁴, 10⁵ and 10⁶ nodes are built,
//! evaluated and dropped in each run, on one thread.

use crate::nodes::Negative;
use crate::report::{Figure, Goal, Report, number};
use crate::scalars::TINY_RATE;
use crate::timing::{Clock, Seen};
use dl::prelude::*;
use dl::{At, Primitive, Result};
use std::hint::black_box;
use std::time::Instant;

/// Numbers of nodes, with the number of graphs in one measurement.
const SIZES: [(usize, usize); 3] = [(10_000, 20), (100_000, 3), (1_000_000, 1)];

/// Builds a layer of `n` nodes over some of a million weights.
type Graph = fn(n: usize, weights: &[Weight<f32>]) -> Layer<f32>;

fn chain(n: usize, weights: &[Weight<f32>]) -> Layer<f32> {
    (0..n).fold(Layer::constant(1.0), |y, _| y * &weights[0])
}

fn tree(n: usize, weights: &[Weight<f32>]) -> Layer<f32> {
    balanced(n / 2, &weights[0])
}

/// A balanced tree of `2 · leaves − 1` nodes; each leaf is a product.
fn balanced(leaves: usize, w: &Weight<f32>) -> Layer<f32> {
    match leaves {
        1 => w * 0.5,
        _ => balanced(leaves / 2, w) + balanced(leaves - leaves / 2, w),
    }
}

fn diamonds(n: usize, weights: &[Weight<f32>]) -> Layer<f32> {
    (0..n / 2).fold(-0.5 * &weights[0], |y, _| &y * &y + &y)
}

fn sum_of_weights(n: usize, weights: &[Weight<f32>]) -> Layer<f32> {
    weights[..n].iter().map(Weight::layer).sum()
}

fn sum_of_constants(n: usize, _: &[Weight<f32>]) -> Layer<f32> {
    (0..n).map(|i| Layer::constant(black_box(i as f32))).sum()
}

fn one_sum_of_weights(n: usize, weights: &[Weight<f32>]) -> Layer<f32> {
    Layer::apply(Total, weights[..n].iter().map(Weight::layer).collect())
}

fn chain_of_primitives(n: usize, weights: &[Weight<f32>]) -> Layer<f32> {
    (0..n).fold(weights[0].layer(), |y, _| Layer::apply(Negative, (y,)))
}

/// The sum of any number of operands as a single user primitive.
struct Total;

impl Primitive for Total {
    type Operands = Vec<Layer<f32>>;
    type Output = f32;

    fn name(&self) -> &'static str {
        "total"
    }

    fn value(&self, operands: Vec<&f32>) -> Result<f32> {
        Ok(operands.into_iter().sum())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<f32>>> {
        at.operands.iter().map(|_| Some(at.delta.clone())).collect()
    }

    fn cost(&self, operands: Vec<&f32>) -> f64 {
        operands.len() as f64
    }
}

fn predict(y: Layer<f32>) {
    black_box(y.predict().wait().expect("it succeeds"));
}

fn train(y: Layer<f32>) {
    black_box(y.train(&Sgd::new(TINY_RATE)).wait().expect("it succeeds"));
}

type Way = (&'static str, fn(Layer<f32>));

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    let weights: Vec<Weight<f32>> = (0..SIZES[2].0).map(|_| Weight::new(black_box(1.0))).collect();
    let ways: [Way; 2] = [("predict", predict), ("train", train)];
    report.section("Scale: the cost of a node among 10⁶ relative to fewer");
    for (name, text, graph, ways) in [
        ("chain", "chain", chain as Graph, &ways[..]),
        ("tree", "balanced binary tree", tree, &ways),
        ("diamonds", "nested diamonds", diamonds, &ways),
        ("sum-weights", "sum of as many weights", sum_of_weights, &ways),
        ("sum-constants", "sum of as many constants", sum_of_constants, &ways[..1]),
        ("total-weights", "one operation on as many weights", one_sum_of_weights, &ways),
        ("primitives", "chain of primitives of one's own", chain_of_primitives, &ways),
    ] {
        for (way, run) in ways {
            let rounds: Vec<[f64; 3]> = (0..(clock.rounds / 5).max(1))
                .map(|_| clock.one.install(|| SIZES.map(|(n, times)| per_node(n, times, || run(graph(n, &weights))))))
                .collect();
            let costs = [0, 1, 2].map(|size| Seen::of(&rounds, |costs| costs[size]).median);
            for (exponent, cost) in (4..).zip(costs) {
                report.row("scale", &format!("{name};{way};1e{exponent}"), 1, cost, "ns/op");
            }
            let [small, medium, large] = costs.map(number);
            let costs = format!("{small}, {medium}, {large} ns a node");
            for (against, seen, most, also) in [
                ("1e5", Seen::of(&rounds, |[_, medium, large]| large / medium), 1.5, String::new()),
                ("1e4", Seen::of(&rounds, |[small, _, large]| large / small), 2.5, costs),
            ] {
                report.figure(Figure {
                    workload: "scale",
                    variant: &format!("{name};{way};1e6/{against}"),
                    threads: 1,
                    text: &format!("{text}: {way}, against {against}"),
                    seen,
                    unit: "times",
                    goal: Goal::AtMost(most),
                    also,
                });
            }
        }
    }
}

/// Nanoseconds per node.
fn per_node(nodes: usize, times: usize, run: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..times).for_each(|_| run());
    start.elapsed().as_nanos() as f64 / (nodes * times) as f64
}
