//! The commit of a few scalar weights.
//!
//! Such a commit is cheaper than allocating the tables of a general one. If the optimizer is plain
//! gradient descent, the updates are applied directly, under the locks of all weights, acquired in
//! id order as in every commit. With the locks held, nothing can fail.

use crate::api::snapshot::LiveSnapshots;
use crate::autodiff::cotangent::AnyDelta;
use crate::error::{Error, Result};
use crate::exec;
use crate::exec::Scalar;
use crate::exec::tables;
use crate::exec::tables::Row;
use crate::graph::node::Node;
use crate::step::commit::{commit, in_optimizer_step};
use crate::step::optimizer::Optimizer;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// At most this many locks are held on the stack.
const MAX_WEIGHTS: usize = 16;

/// Updates these distinct weights by their deltas, as [`commit`] does, with a fast path for plain
/// gradient descent.
#[inline]
pub(crate) fn commit_scalars<L>(optimizer: &dyn Optimizer, deltas: &[(L, Scalar)]) -> Result<()>
where
    L: Deref<Target = Node> + Clone,
    (L, AnyDelta): Row,
{
    if try_fast_path(optimizer, deltas)? { Ok(()) } else { commit_general(optimizer, deltas) }
}

#[inline(never)]
fn commit_general<L>(optimizer: &dyn Optimizer, deltas: &[(L, Scalar)]) -> Result<()>
where
    L: Deref<Target = Node> + Clone,
    (L, AnyDelta): Row,
{
    let mut any = tables::spare();
    any.extend(deltas.iter().map(|(weight, number)| (weight.clone(), AnyDelta::Ready((*number).into()))));
    commit(optimizer, any, &[])
}

/// Applies the updates if the fast path is possible. Otherwise changes nothing and returns `false`.
///
/// # Errors
/// The panic of a user-defined optimizer. Nothing has changed.
#[inline]
fn try_fast_path<L: Deref<Target = Node>>(optimizer: &dyn Optimizer, deltas: &[(L, Scalar)]) -> Result<bool> {
    // A nested step must not wait for locks, and a step within a pass may be recorded there.
    if deltas.len() > MAX_WEIGHTS || exec::in_pass() || in_optimizer_step() {
        return Ok(false);
    }
    let rate = catch_unwind(AssertUnwindSafe(|| optimizer.plain_descent())).map_err(Error::panic)?;
    // An invalid learning rate is reported by the general path.
    let Some(rate) = rate.filter(|rate| rate.is_finite()) else { return Ok(false) };
    let Some(snapshots) = with_locks(deltas, 0, || update_all(deltas, rate)) else { return Ok(false) };
    // A snapshot dropped meanwhile leaves its values to be dropped here, possibly by user
    // destructors. The step has been taken: a destructor panic is not reported.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(snapshots)));
    Ok(true)
}

/// Runs `f` under the locks of these weights, if they are scalars and their ids ascend from the
/// last delta to the first, all above `last`. Recursive, so that the locks are on the stack.
fn with_locks<L: Deref<Target = Node>, R>(deltas: &[(L, Scalar)], last: u64, f: impl FnOnce() -> R) -> Option<R> {
    let Some(((weight, _), others)) = deltas.split_last() else { return Some(f()) };
    let variable = weight.as_variable().filter(|variable| variable.is_number() && variable.id() > last)?;
    let _lock = variable.lock();
    with_locks(others, variable.id(), f)
}

fn update_all<L: Deref<Target = Node>>(deltas: &[(L, Scalar)], rate: f64) -> LiveSnapshots {
    let snapshots = LiveSnapshots::collect();
    for (weight, delta) in deltas {
        if let Some(variable) = weight.as_variable().filter(|variable| !variable.frozen()) {
            snapshots.save(variable);
            variable.descend_number(rate, *delta);
        }
    }
    snapshots
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use crate::exec::Scalar;
    use crate::graph::node_ref::AnyLayer;
    use crate::testing::Sgd;
    use crate::{Chunk, Differentiable, Do, Layer, Memory, Optimizer, Result, Slot, Snapshot, Weight};

    /// The same optimizer without the fast path.
    #[derive(Clone)]
    struct NoFastPath(Sgd);

    impl Optimizer for NoFastPath {
        fn slots(&self) -> &[Slot] {
            self.0.slots()
        }

        fn memory(&self) -> Option<&Memory> {
            self.0.memory()
        }

        fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
            self.0.step(chunk, steps)
        }
    }

    fn trained(optimizer: &(impl Optimizer + Clone + 'static), weights: usize, reversed: bool) -> Vec<f32> {
        let mut all: Vec<Weight<f32>> = (0..weights).map(|i| Weight::new(0.1 + i as f32)).collect();
        all[1].freeze();
        if reversed {
            all.reverse();
        }
        for step in 0..5 {
            let sum: Layer<f32> = all.iter().enumerate().map(|(i, w)| w * (i as f32 - step as f32) + 0.3).sum();
            (&sum * &sum).train(optimizer).wait().expect("it succeeds");
        }
        all.iter().map(Weight::value).collect()
    }

    #[test]
    fn fast_path_equals_general_commit() {
        for weights in [2, 5, super::MAX_WEIGHTS, super::MAX_WEIGHTS + 1] {
            for reversed in [false, true] {
                let (sgd, any) = (Sgd::new(1e-3), NoFastPath(Sgd::new(1e-3)));
                assert!(sgd.plain_descent().is_some() && any.plain_descent().is_none());
                assert_eq!(trained(&sgd, weights, reversed), trained(&any, weights, reversed));
            }
        }
    }

    #[test]
    fn fast_path_is_taken_only_where_possible() {
        let weights: Vec<Weight<f32>> = (0..=super::MAX_WEIGHTS).map(|_| Weight::new(1.0)).collect();
        let of = |weights: &mut dyn Iterator<Item = &Weight<f32>>| -> Vec<_> {
            weights.map(|w| (w.layer().into_any(), Scalar::F32(2.0))).collect()
        };
        let step = |deltas: &[(AnyLayer, Scalar)]| super::try_fast_path(&Sgd::new(0.25), deltas).expect("no panic");
        // A backward traversal finds the oldest weight last.
        let few = of(&mut weights[1..].iter().rev());
        weights[3].freeze();
        assert!(step(&few));
        assert!(weights.iter().enumerate().all(|(i, w)| w.value() == if i == 0 || i == 3 { 1.0 } else { 0.5 }));
        let before: Vec<f32> = weights.iter().map(Weight::value).collect();
        assert!(!step(&of(&mut weights.iter().rev())), "too many");
        assert!(!step(&of(&mut weights[..2].iter())), "in another order");
        assert!(!step(&of(&mut [&weights[0], &weights[0]].into_iter())), "one weight twice");
        let one = of(&mut weights[..1].iter());
        assert!(!super::try_fast_path(&Sgd::new(f64::NAN), &one).expect("no panic"));
        let flag_before = crate::step::commit::IN_OPTIMIZER_STEP.replace(true);
        assert!(!step(&one), "inside of a step");
        crate::step::commit::IN_OPTIMIZER_STEP.set(flag_before);
        let inside = Do::from_fn(move || std::future::ready(super::try_fast_path(&Sgd::new(0.25), &one)));
        assert!(!inside.wait().expect("no panic"), "in a pass");
        assert_eq!(weights.iter().map(Weight::value).collect::<Vec<_>>(), before);
    }

    #[test]
    fn snapshot_keeps_values_overwritten_by_fast_path() {
        let w = Weight::new(1.0_f64);
        let y = &w * 2.0;
        let before = Snapshot::take();
        y.train(&Sgd::new(0.25)).wait().expect("it succeeds");
        assert_eq!((w.value(), y.predict().on(&before).wait().expect("it succeeds")), (0.5, 2.0));
    }

    #[test]
    fn nan_learning_rate_fails_without_changes() {
        let w = Weight::new(1.0_f64);
        let error = (&w * 2.0).train(&Sgd::new(f64::NAN)).wait().expect_err("an invalid learning rate");
        assert!(error.to_string().contains("learning rate"), "{error}");
        assert_eq!(w.value(), 1.0);
    }

    /// Concurrent steps of overlapping weights lose no update.
    #[test]
    fn concurrent_steps_lose_no_update() {
        let weights: Vec<Weight<f64>> = (0..4).map(|_| Weight::new(0.0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let weights = &weights;
                scope.spawn(move || {
                    let sum: Layer<f64> = (0..3).map(|i| weights[(thread + i) % 4].layer()).sum();
                    for _ in 0..1_000 {
                        sum.train(&Sgd::new(-1.0)).wait().expect("it succeeds");
                    }
                });
            }
        });
        assert!(weights.iter().all(|w| w.value() == 3_000.0));
    }
}
