//! Commits and snapshots without a pass.

use super::{Part, explore, together};
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::autodiff::cotangent::AnyDelta;
use crate::exec::snapshot::Snapshot;
use crate::graph::node_ref::NodeRef;
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use crate::step::commit::commit;
use crate::testing::Sgd;

type Deltas = Vec<(NodeRef, AnyDelta)>;

fn step(deltas: Deltas) {
    commit(&Sgd::new(1.0), deltas, &[], &[]).expect("no error");
}

fn deltas(of: [(&Weight<f64>, f64); 2]) -> Deltas {
    of.map(|(weight, delta)| (weight.layer().into_any(), AnyDelta::Ready(Value::from(Scalar::F64(delta))))).into()
}

#[test]
fn snapshot_sees_whole_commit_or_none() {
    explore(|| {
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
fn commits_in_opposite_order_do_not_deadlock() {
    explore(|| {
        let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
        let (first, second) = (deltas([(&a, 1.0), (&b, 1.0)]), deltas([(&b, 1.0), (&a, 1.0)]));
        together([Box::new(move || step(first)) as Part, Box::new(move || step(second))]);
        assert_eq!((a.value(), b.value()), (-1.0, -1.0));
    });
}
