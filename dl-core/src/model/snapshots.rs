//! Commits and snapshots, without a pass around them.

use super::{Part, explore, together};
use crate::commit::commit;
use crate::node::AnyLayer;
use crate::reverse::AnyDelta;
use crate::value::{Repr, Value};
use crate::{Differentiable, Sgd, Snapshot, Weight};

fn ready(number: f64) -> AnyDelta {
    AnyDelta::Ready(Value(Repr::F64(number)))
}

#[test]
fn a_snapshot_sees_a_commit_whole_or_not_at_all() {
    seen_whole(|deltas| deltas);
}

/// In the order in which a walk back meets the weights, it is taken at once.
#[test]
fn a_snapshot_sees_a_step_of_few_numbers_whole_or_not_at_all() {
    seen_whole(|[a, b]| [b, a]);
}

fn seen_whole(order: fn([(AnyLayer, AnyDelta); 2]) -> [(AnyLayer, AnyDelta); 2]) {
    explore(move || {
        let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
        let (of_a, of_b) = (a.clone(), b.clone());
        together([
            Box::new(move || {
                let deltas = [(of_a.layer().into_any(), ready(1.0)), (of_b.layer().into_any(), ready(-1.0))];
                let deltas = order(deltas).into();
                commit(&Sgd::new(1.0), deltas, &[]).expect("no error");
            }) as Part,
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
    explore(|| {
        let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
        let step = |weights: [&Weight<f64>; 2]| {
            let deltas: Vec<_> = weights.map(|w| (w.layer().into_any(), ready(1.0))).into();
            Box::new(move || commit(&Sgd::new(1.0), deltas, &[]).expect("no error")) as Part
        };
        together([step([&a, &b]), step([&b, &a])]);
        assert_eq!((a.value(), b.value()), (-1.0, -1.0));
    });
}
