//! Inline execution of a job that no other thread is going to take.
//!
//! A kernel that is too expensive for a traversal (see `inline.rs`) is queued, so that other
//! threads can take it. In a network without branches none does: when the worker takes the job, no
//! other job is queued and no helper is active. The worker then runs the job inline, and its chain,
//! until there is something to share.

use crate::exec::Pass;
use crate::exec::context::computing;
use crate::exec::dispatch::{INLINE_NS, inline_limit};
use crate::exec::state::PassState;
use crate::graph::node::NodeOp;
use dl_parallel::sync::{MutexGuard, Ordering, current_num_threads};
use std::sync::Arc;

impl Pass {
    /// Whether an operation of this cost, whose job was just taken, may run inline: no other shared
    /// job is queued, and no helper is active.
    pub(super) fn is_alone(&self, index: u32, nanoseconds: f64, state: &PassState) -> bool {
        nanoseconds < inline_limit(true, current_num_threads())
            && state.ready.is_all_local()
            && state.workers.tickets() == 0
            && !state.workers.has_open_region()
            && !self.is_watched()
            && matches!(&state.node(index).op, NodeOp::Primitive(op) if op.is_pure())
    }

    /// Runs the operation inline, and its followers in the chain, until there is something to
    /// share. The rest is requeued. Returns an operation that takes too long or fails: it is
    /// requeued, too, and must not be tried inline again.
    pub(super) fn run_alone<'a>(
        self: &'a Arc<Self>,
        index: u32,
        mut state: MutexGuard<'a, PassState>,
        chain: &mut Vec<u32>,
    ) -> (MutexGuard<'a, PassState>, Option<u32>) {
        let longest = inline_limit(true, current_num_threads());
        state.take_chain(index, chain);
        chain.insert(0, index);
        for next in 0..chain.len() {
            // A hand-over of an expensive follower may pay off if there are other jobs for this
            // thread.
            let has_others = next > 0 && state.ready.len() > 0;
            let limit = if has_others { INLINE_NS } else { longest };
            let node = state.node(chain[next]);
            let done = match &node.op {
                NodeOp::Primitive(op) if op.is_pure() => {
                    computing(self, || state.run_inline(chain[next], &**op, limit))
                }
                _ => false,
            };
            if !done {
                state.put_back(&chain[next..], has_others);
                return (state, Some(chain[next]));
            }
            if !state.deferred.is_empty() || self.lock_waiters.load(Ordering::Relaxed) > 0 {
                state = self.yield_lock(state);
            }
            let rest = &chain[next + 1..];
            if !rest.is_empty() && (!state.ready.is_all_local() || state.drivers.is_empty()) {
                state.put_back(rest, false);
                break;
            }
        }
        (state, None)
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use crate::exec::context::with_computing;
    use crate::exec::inline::tests::chain;
    use crate::exec::inline::tests::{Probe, on_threads};
    use crate::{At, BuiltIn, Data, Deltas, Differentiable, Error, Layer, Nothing, Primitive, Result};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Whether the lock is free is asked when this goes.
    #[derive(Clone)]
    struct Asking {
        _asker: Arc<Asker>,
    }

    struct Asker(Arc<Mutex<Vec<bool>>>);

    impl Drop for Asker {
        fn drop(&mut self) {
            let is_free = with_computing(|pass| pass.is_none_or(|pass| pass.state.try_lock().is_ok()));
            self.0.lock().expect("nobody panics").push(is_free);
        }
    }

    impl Data for Asking {
        type Delta = Nothing;

        fn one(&self) -> Nothing {
            Nothing
        }
    }

    /// Makes one of these, or fails.
    struct Makes(Option<Arc<Mutex<Vec<bool>>>>);

    impl Primitive for Makes {
        type Operands = (Layer<f64>,);
        type Output = Asking;

        fn name(&self) -> &'static str {
            "makes"
        }

        fn value(&self, _: (&f64,)) -> Result<Asking> {
            let asked = self.0.clone().ok_or_else(|| Error::invalid("it was to fail"))?;
            Ok(Asking { _asker: Arc::new(Asker(asked)) })
        }

        fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
            (None,)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            100.0
        }
    }

    /// Is not run: one of its operands has failed.
    struct NotRun;

    impl Primitive for NotRun {
        type Operands = (Layer<Asking>, Layer<Asking>, Layer<f64>);
        type Output = f64;

        fn name(&self) -> &'static str {
            "not run"
        }

        fn value(&self, (.., x): (&Asking, &Asking, &f64)) -> Result<f64> {
            Ok(*x)
        }

        fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
            (None, None, None)
        }
    }

    /// An operation that runs inline is the last input of a consumer, which fails, and releases
    /// user values.
    #[test]
    fn built_in_kernels_release_user_values_without_lock() {
        let asked = Arc::<Mutex<Vec<bool>>>::default();
        for _ in 0..20 {
            let dear = || Probe::new(5_000.0, |_| ());
            let makes = |asked| Layer::apply(Makes(asked), (Layer::constant(0.0),));
            let last = Layer::apply_built_in(dear(), (Layer::apply_built_in(dear(), (Layer::constant(0.0),)),));
            let end = Layer::apply(NotRun, (makes(None), makes(Some(asked.clone())), last));
            assert!(on_threads(2, || end.predict().wait()).is_err());
        }
        let asked = asked.lock().expect("nobody panics");
        assert!(!asked.is_empty() && asked.iter().all(|&is_free| is_free), "{asked:?}");
    }

    /// Another thread wants the lock while a worker runs queued jobs inline.
    #[test]
    fn inline_jobs_yield_lock_to_waiting_thread() {
        let (had, begun) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let slow = || {
            let (had, begun) = (had.clone(), begun.clone());
            Probe::new(5_000.0, move |pass| {
                if !begun.swap(true, Relaxed) {
                    let (had, pass) = (had.clone(), Arc::downgrade(pass));
                    std::thread::spawn(move || {
                        while let Some(pass) = pass.upgrade() {
                            drop(pass.state());
                            had.fetch_add(1, Relaxed);
                        }
                    });
                }
                std::thread::sleep(Duration::from_millis(1));
            })
        };
        let meanwhile = Arc::<AtomicUsize>::default();
        let last = {
            let (had, meanwhile) = (had.clone(), meanwhile.clone());
            Probe::new(5_000.0, move |_| meanwhile.store(had.load(Relaxed), Relaxed))
        };
        let end = Layer::apply_built_in(last, (chain(0.0, slow),));
        assert_eq!(on_threads(2, || end.predict().wait()).expect("it succeeds"), 101.0);
        let had = meanwhile.load(Relaxed);
        assert!(had > 0, "of 100 operations three take 20 µs; nobody else had the lock in between");
    }

    /// An operation of the library that fails.
    #[derive(Clone)]
    struct Fails;

    impl Primitive for Fails {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "fails"
        }

        fn value(&self, _: (&f64,)) -> Result<f64> {
            Err(Error::invalid("it was to fail"))
        }

        fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
            (None,)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            100.0
        }
    }

    impl BuiltIn for Fails {
        const IS_PURE: bool = true;
    }

    /// Several that fail, for which no thread is invited, behind an expensive operation.
    #[test]
    fn failing_built_in_op_runs_twice_at_most() {
        for branches in 1..6 {
            let dear = Layer::apply_built_in(Probe::new(100_000.0, |_| ()), (Layer::constant(0.0),));
            let small = |x: &Layer<f64>| Layer::apply_built_in(Probe::new(100.0, |_| ()), (x.clone(),));
            let failing = (0..branches)
                .map(|at| Layer::apply_built_in(Fails, (if at % 2 == 0 { small(&dear) } else { dear.clone() },)));
            let sum = failing.chain([small(&dear)]).sum::<Layer<f64>>();
            let error = on_threads(2, || sum.train(&crate::testing::Sgd::new(0.1)).wait()).expect_err("it fails");
            assert!(error.to_string().contains("it was to fail"), "{error}");
        }
    }
}
