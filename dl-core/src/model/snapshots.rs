//! Commits and snapshots, without a pass around them.

use crate::api::differentiable::Differentiable;
use crate::api::snapshot::Snapshot;
use crate::api::weight::Weight;
use crate::autodiff::cotangent::AnyDelta;
use crate::exec::Scalar;
use crate::graph::node_ref::AnyLayer;
use crate::graph::value::Value;
use crate::model::{Part, explore, together};
use crate::step::commit::commit;
use crate::step::commit_scalar::commit_scalars;
use crate::testing::Sgd;

type Step = fn(Vec<(AnyLayer, Scalar)>);

/// A step of any weights.
const ANY: Step = |deltas| {
    let ready = deltas.into_iter().map(|(weight, delta)| (weight, AnyDelta::Ready(Value::from(delta))));
    commit(&Sgd::new(1.0), ready.collect(), &[]).expect("no error");
};

/// One of plain numbers, which is taken at once if its weights are in the order in which a walk
/// back meets them.
const NUMBERS: Step = |deltas| commit_scalars(&Sgd::new(1.0), &deltas).expect("no error");

fn deltas(of: [(&Weight<f64>, f64); 2]) -> Vec<(AnyLayer, Scalar)> {
    of.map(|(weight, delta)| (weight.layer().into_any(), Scalar::F64(delta))).into()
}

#[test]
fn a_snapshot_sees_a_commit_whole_or_not_at_all() {
    seen_whole(ANY);
}

#[test]
fn a_snapshot_sees_a_step_of_few_numbers_whole_or_not_at_all() {
    seen_whole(NUMBERS);
}

fn seen_whole(step: Step) {
    explore(move || {
        let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
        let (of_a, of_b) = (a.clone(), b.clone());
        together([
            Box::new(move || step(deltas([(&of_b, -1.0), (&of_a, 1.0)]))) as Part,
            Box::new(move || {
                let snapshot = Snapshot::take();
                let look = |w: &Weight<f64>| *snapshot.read(&w.layer().any().variable().expect("a leaf")).get::<f64>();
                let seen = [look(&a), look(&b)];
                assert_eq!(seen[0] + seen[1], 2.0, "half a step was seen");
                assert_eq!(look(&a), seen[0], "a snapshot has changed");
            }),
        ]);
    });
}

#[test]
fn commits_in_opposite_order() {
    in_opposite_order(ANY);
}

/// One of them is taken at once, the other one has to be put in order.
#[test]
fn steps_of_few_numbers_in_opposite_order() {
    in_opposite_order(NUMBERS);
}

fn in_opposite_order(step: Step) {
    explore(move || {
        let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
        let (first, second) = (deltas([(&a, 1.0), (&b, 1.0)]), deltas([(&b, 1.0), (&a, 1.0)]));
        together([Box::new(move || step(first)) as Part, Box::new(move || step(second))]);
        assert_eq!((a.value(), b.value()), (-1.0, -1.0));
    });
}
