//! Steps of a few weights that are plain numbers.
//!
//! Such a step takes less time than the tables that a step is worked out in. So where an optimizer has nothing to say but a learning rate, it is taken at once, weight by weight, under the
//! locks of all of them and in the order in which any step takes them. Once they are locked nothing can fail.

use super::is_stepping;
use crate::node::{Node, Variable};
use crate::optimizer::Optimizer;
use crate::pass;
use crate::reverse::AnyDelta;
use crate::snapshot::Earlier;
use crate::sync::MutexGuard;
use smallvec::SmallVec;
use std::ops::Deref;

/// So many locks lie on the stack.
const FEW: usize = 16;

/// Takes the step, if it is one of these. Else nothing has changed, and nobody was asked.
#[inline]
pub(super) fn step<L: Deref<Target = Node>>(optimizer: &dyn Optimizer, deltas: &[(L, AnyDelta)]) -> bool {
    // a step inside another one waits for nobody, and one in a pass may be recorded there
    if deltas.len() > FEW || pass::in_pass() || is_stepping() {
        return false;
    }
    let Some(rate) = optimizer.plain_descent() else { return false };
    let mut weights: SmallVec<[(&Variable, &AnyDelta); FEW]> = SmallVec::new();
    for (weight, delta) in deltas.iter().rev() {
        let Some(variable) = weight.as_variable().filter(|variable| delta.is_number_of(variable)) else { return false };
        if weights.last().is_some_and(|(last, _)| last.id() >= variable.id()) {
            return false; // they have to be put in order
        }
        if !variable.frozen() {
            weights.push((variable, delta));
        }
    }
    let mut locks: SmallVec<[MutexGuard<'_, ()>; FEW]> = SmallVec::new();
    for (variable, _) in &weights {
        locks.push(variable.lock());
    }
    let earlier = Earlier::all();
    for (variable, delta) in &weights {
        earlier.keep(variable);
        delta.descend(variable, rate);
    }
    true
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use crate::{Chunk, Differentiable, Layer, Memory, Optimizer, Result, Sgd, Slot, Snapshot, Weight};

    /// The same optimizer, which does not say that it is so simple.
    #[derive(Clone)]
    struct Any(Sgd);

    impl Optimizer for Any {
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
    fn it_is_the_step_that_any_optimizer_takes() {
        for weights in [2, 5, super::FEW, super::FEW + 1] {
            for reversed in [false, true] {
                let (sgd, any) = (Sgd::new(1e-3), Any(Sgd::new(1e-3)));
                assert!(sgd.plain_descent().is_some() && any.plain_descent().is_none());
                assert_eq!(trained(&sgd, weights, reversed), trained(&any, weights, reversed));
            }
        }
    }

    #[test]
    fn a_snapshot_keeps_what_was_before() {
        let w = Weight::new(1.0_f64);
        let y = &w * 2.0;
        let before = Snapshot::take();
        y.train(&Sgd::new(0.25)).wait().expect("it succeeds");
        assert_eq!((w.value(), y.predict().on(&before).wait().expect("it succeeds")), (0.5, 2.0));
    }

    #[test]
    fn a_learning_rate_that_is_no_number_changes_nothing() {
        let w = Weight::new(1.0_f64);
        let error = (&w * 2.0).train(&Sgd::new(f64::NAN)).wait().expect_err("it is no learning rate");
        assert!(error.to_string().contains("learning rate"), "{error}");
        assert_eq!(w.value(), 1.0);
    }

    /// Threads that step overlapping weights at once lose no step.
    #[test]
    fn steps_of_several_threads_add_up() {
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
