//! Running the kernel of a queued job.
//!
//! A kernel runs without the state lock, unless no other thread is going to take the job: in a
//! network without branches, no other job is queued and no helper is active when a driver takes
//! the job. The driver then runs a small operation of the library inline (see `inline.rs`).

use crate::exec::context::computing;
use crate::exec::dispatch::inline_limit;
use crate::exec::later::{self, Outcome};
use crate::exec::state::PassState;
use crate::exec::{Keep, Pass, user_code};
use crate::graph::identity::Effect;
use crate::graph::node::{Node, NodeOp};
use crate::graph::op::OperandVec;
use crate::graph::value::{Repr, Value};
use crate::record::SpanWork;
use dl_parallel::sync::{MutexGuard, Ordering, current_num_threads};
use std::sync::Arc;

impl PassState {
    /// Called before the kernel of this node runs, when its operands are ready.
    fn record_effects(&mut self, index: u32, node: &Node) {
        if self.env.keep() == Keep::Nothing || self.is_rematerialized(index) {
            return;
        }
        match node.effect() {
            Some(Effect::Update) => {
                self.retention.add_update(index);
                self.keep_value(self.operand(index, Effect::NEW_VALUE));
            }
            Some(Effect::Checkpoint) => self.close_segment(self.operand(index, 0)),
            None => {}
        }
    }
}

impl Pass {
    /// Runs the kernel of a queued job, whose estimated cost is `nanoseconds`, and completes its
    /// node.
    pub(super) fn run_job<'a>(
        self: &'a Arc<Self>,
        index: u32,
        nanoseconds: f64,
        helps: bool,
        mut state: MutexGuard<'a, PassState>,
    ) -> MutexGuard<'a, PassState> {
        if !helps
            && self.is_alone(nanoseconds, &state)
            && let NodeOp::Primitive(op) = &state.node(index).op
            && op.is_pure()
            && computing(self, || state.run_inline(index, &**op, inline_limit(true, current_num_threads())))
        {
            let yields = !state.deferred.is_empty() || self.lock_waiters.load(Ordering::Relaxed) > 0;
            return if yields { self.yield_lock(state) } else { state };
        }
        state.workers.running += 1;
        let outcome = self.run_kernel(index, state);
        let mut state = self.state();
        // Counted now: other threads have taken jobs while the kernel ran.
        let queued = state.ready.len();
        match outcome {
            Outcome::Value(result) => state.complete(index, result),
            Outcome::Read(read) => state.tasks.reads.push(index, read),
        }
        if !helps && state.ready.len() > queued {
            state.ready.bring_last_forward();
        }
        state.workers.running -= 1;
        state
    }

    /// Whether no other thread could take an operation of this cost, whose job was just taken: no
    /// other shared job is queued, and no helper is active.
    fn is_alone(&self, nanoseconds: f64, state: &PassState) -> bool {
        nanoseconds < inline_limit(true, current_num_threads())
            && state.ready.is_all_local()
            && state.workers.tickets == 0
            && !state.workers.has_open_region()
            && !self.is_watched()
    }

    /// Runs the kernel of this node.
    fn run_kernel(self: &Arc<Self>, index: u32, mut state: MutexGuard<'_, PassState>) -> Outcome {
        // Kept alive by the table: pending slots are not swept.
        let node = state.node(index);
        state.record_effects(index, &node);
        let count = node.operands().len();
        let mut operands: OperandVec<Value> = (0..count).map(|which| state.take_operand(index, which)).collect();
        self.release(state);
        computing(self, || self.run(index, &node, &mut operands))
    }

    /// Runs a kernel and drops its operands. An error or a panic becomes an error that names the
    /// operation.
    #[inline]
    fn run(self: &Arc<Self>, index: u32, node: &Node, operands: &mut [Value]) -> Outcome {
        let NodeOp::Primitive(op) = &node.op else { unreachable!("kernels belong to operations") };
        if self.steps {
            for operand in op.operands() {
                if let NodeOp::Weight(variable, _) = &operand.op {
                    variable.meet();
                }
            }
        }
        let _built = node.enter();
        let value = || op.value(&operands.iter().collect::<OperandVec<_>>());
        let value = || self.during(SpanWork::Kernel, Some(node), || self.traced(index), value);
        let named = || value().map_err(|error| error.at(op.name(), node.site()));
        let outcome = later::run(op.can_be_later(), || user_code::run_fallible(named));
        for (which, operand) in operands.iter_mut().enumerate() {
            if let Value(Repr::Any(_)) = operand {
                let value = std::mem::replace(operand, Value(Repr::F64(0.0)));
                self.discard(value, op.operands()[which].place);
            }
        }
        match outcome {
            Outcome::Value(result) => Outcome::Value(result.map_err(|error| error.at(op.name_or_panic(), node.site()))),
            read => read,
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use crate::exec::context::with_computing;
    use crate::exec::inline::tests::{Probe, chain, on_threads};
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
