//! Training steps on shared weights, with concurrent snapshots.

use super::{Part, explore, together};
use crate::api::buffer::Buffer;
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::exec::snapshot::Snapshot;
use crate::graph::layer::Layer;
use crate::testing::Sgd;

fn step(loss: &Layer<f64>, optimizer: &Sgd) {
    loss.train(optimizer).wait().expect("no error");
}

#[test]
fn steps_in_opposite_order_never_interleave() {
    explore(|| {
        let (a, b) = (Weight::new(10.0_f64), Weight::new(10.0_f64));
        // each step preserves a + b
        let (one, other) = (a.layer() - b.layer(), b.layer() - a.layer());
        let sum = a.layer() + b.layer();
        let (first, second) = (Sgd::new(1.0), Sgd::new(2.0));
        let seen: Part = Box::new(move || {
            let snapshot = Snapshot::take();
            for _ in 0..2 {
                assert_eq!(sum.predict().on(&snapshot).wait().expect("no error"), 20.0);
            }
        });
        together([Box::new(move || step(&one, &first)) as Part, Box::new(move || step(&other, &second)), seen]);
        assert_eq!((a.value(), b.value()), (11.0, 9.0));
    });
}

#[test]
fn snapshot_during_steps_does_not_change() {
    explore(|| {
        let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
        let loss = a.layer() - b.layer();
        let watched: [Layer<f64>; 2] = [a.layer(), b.layer()];
        together([
            Box::new(move || {
                for _ in 0..2 {
                    step(&loss, &Sgd::new(1.0));
                }
            }) as Part,
            Box::new(move || {
                let snapshot = Snapshot::take();
                let look = |layer: &Layer<f64>| layer.predict().on(&snapshot).wait().expect("no error");
                let [a, b] = [look(&watched[0]), look(&watched[1])];
                assert_eq!(a + b, 2.0, "half a step was seen: {a} and {b}");
                assert_eq!([look(&watched[0]), look(&watched[1])], [a, b], "a snapshot has changed");
            }),
        ]);
        assert_eq!((a.value(), b.value()), (-1.0, 3.0));
    });
}

#[test]
fn value_set_during_step_is_serialized_with_commit() {
    explore(|| {
        let w = Weight::new(1.0_f64);
        let (ours, loss) = (w.clone(), w.layer() * 1.0);
        together([Box::new(move || step(&loss, &Sgd::new(1.0))) as Part, Box::new(move || ours.set(5.0))]);
        let value = w.value();
        assert!(value == 4.0 || value == 5.0, "{value}"); // the step was last, or `set` was
    });
}

#[test]
fn buffer_and_weight_are_committed_together() {
    explore(|| {
        let (w, steps) = (Weight::new(0.0_f64), Buffer::new(0.0_f64));
        let loss = (-w.layer()).updating(&steps, &steps.layer() + 1.0);
        let watched = w.layer() - steps.layer();
        together([
            Box::new(move || step(&loss, &Sgd::new(1.0))) as Part,
            Box::new(move || {
                let snapshot = Snapshot::take();
                assert_eq!(watched.predict().on(&snapshot).wait().expect("no error"), 0.0);
            }),
        ]);
        assert_eq!((w.value(), steps.value()), (1.0, 1.0));
    });
}
