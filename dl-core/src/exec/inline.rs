//! Inline execution of small kernels, and the traversals that meet them.
//!
//! Queueing a kernel (enqueue, dequeue, in-degree update) costs a few hundred nanoseconds, more
//! than a small kernel itself. So a small operation of the library with ready operands runs
//! inline: on the thread that has found it ready, with the state lock held. Its operands hold plain
//! data, so no user code runs there, not even a destructor. (A panic would call the panic hook:
//! kernels of the library return errors.) If it fails it is queued, fails once more, and the error
//! says where.
//!
//! Three callers share this path: a traversal that inserts a node ([`PassState::dispatch_inline`]),
//! a driver with one job that it cannot share (`kernel.rs`), and the backward, which evaluates
//! cotangents as it emits them (`autodiff/eager.rs`).
//!
//! Once so much is queued that other threads could share it, kernels are queued behind it. The last
//! kernel of a pass with one root has nothing to be shared with, so it runs inline though it is
//! expensive. Where the pool has one thread, kernels are queued behind bodies of dynamic nodes
//! only.
//!
//! The threshold for small is higher than for the cost of a queue entry alone: the operands are
//! tensors in the caches of this core, which another core would have to fetch. So a network of
//! small operations stays on the thread that traverses it.
//!
//! While another thread waits for the lock, a traversal runs a few kernels inline and queues the
//! others (see `discover.rs`).

use crate::exec::context::{computing, in_task, may_work};
use crate::exec::discover::{InlinePolicy, Traversal};
use crate::exec::dispatch::{INVITE_NS, LARGE_VALUE_BYTES, inline_limit};
use crate::exec::node_table::SlotState;
use crate::exec::state::PassState;
use crate::exec::{Pass, body_cost, user_code};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::AnyPrimitive;
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use dl_parallel::sync::current_num_threads;
use std::sync::Arc;

/// Evaluates this operation of the library inline. None if its cost is `limit` or
/// more, or it fails.
pub(crate) fn evaluate_inline(op: &dyn AnyPrimitive, operands: &[&Value], limit: f64) -> Option<Value> {
    let value = || if op.cost(operands) < limit { op.value(operands).ok() } else { None };
    user_code::run(value).unwrap_or_default()
}

impl Pass {
    /// The slot of a layer; it and everything that it depends on are inserted if they are not yet.
    pub(super) fn discover(self: &Arc<Self>, state: &mut PassState, layer: &NodeRef) -> u32 {
        state.find(layer).unwrap_or_else(|| {
            let runs = may_work() && !state.drivers.is_empty();
            let index = body_cost::apart(self, || self.insert(state, layer, runs, in_task()));
            state.root(index);
            index
        })
    }

    /// A dynamic node has resolved to this layer, as a worker reports.
    pub(super) fn follow(self: &Arc<Self>, state: &mut PassState, index: u32, layer: NodeRef) {
        let source = match state.find(&layer) {
            Some(source) => source,
            None if layer.is_dynamic() => state.insert_dynamic(&layer),
            None => self.insert(state, &layer, !state.drivers.is_empty(), true),
        };
        state.follow(index, source, layer);
    }

    /// Inserts a layer that is not in the node table, and everything that it depends on. `runs`
    /// says whether kernels are run inline, `working` whether this thread is counted as one that
    /// works.
    fn insert(self: &Arc<Self>, state: &mut PassState, root: &NodeRef, runs: bool, working: bool) -> u32 {
        let inline = if runs && !self.is_watched() { InlinePolicy::Small } else { InlinePolicy::Queue };
        let traversal = state.begin_traversal(root, inline);
        self.traverse(state, traversal, working)
    }

    /// Inserts a layer and everything that it depends on, before the first traversal is completed.
    pub(super) fn insert_before(self: &Arc<Self>, state: &mut PassState, layer: &NodeRef, inline: InlinePolicy) -> u32 {
        let traversal = state.begin_traversal(layer, inline);
        let index = self.complete(state, traversal, false);
        state.root(index);
        index
    }

    /// The slot of the root of a traversal, which is completed.
    pub(super) fn traverse(self: &Arc<Self>, state: &mut PassState, traversal: Traversal, working: bool) -> u32 {
        let index = self.complete(state, traversal, working);
        self.note_origin(state);
        index
    }

    fn complete(self: &Arc<Self>, state: &mut PassState, mut traversal: Traversal, working: bool) -> u32 {
        let evaluated = state.stats.evaluations();
        let index = computing(self, || state.traverse(&mut traversal, Some(self)));
        if !working && state.stats.evaluations() > evaluated {
            self.width.works();
            self.width.rests();
        }
        index.expect("it has the pass")
    }

    /// A traversal is done. If it was the first, and met no position that others are counted from,
    /// they are counted from where the computation was made.
    pub(super) fn note_origin(&self, state: &mut PassState) {
        if state.discovery.roots() == 1
            && let Some(made_at) = self.settings.made_at
        {
            state.env.note_position(made_at);
        }
    }
}

impl PassState {
    /// Runs the kernel of a new node inline if it may be. Says whether it did.
    pub(super) fn dispatch_inline(&mut self, index: u32, op: &dyn AnyPrimitive, policy: InlinePolicy) -> bool {
        if policy == InlinePolicy::Queue || !op.is_pure() || self.ready.nanoseconds() >= INVITE_NS {
            return false;
        }
        let is_ready = |state| matches!(state, SlotState::F32 | SlotState::F64 | SlotState::Ready);
        if !(0..op.operands().len()).all(|which| is_ready(self.entry(self.operand(index, which)).state)) {
            return false;
        }
        let threads = current_num_threads();
        let alone = self.ready.len() == 0 && (policy == InlinePolicy::Last || threads == 1);
        self.run_inline(index, op, inline_limit(alone, threads))
    }

    /// Runs the kernel of this node inline, and completes the node. Says whether it did: not if its
    /// cost is `limit` or more, or it fails.
    ///
    /// It must be a built-in operation with all operands ready. A new node has no ext yet; one that
    /// was queued has.
    pub(super) fn run_inline(&mut self, index: u32, op: &dyn AnyPrimitive, limit: f64) -> bool {
        let operands = op.operands().len();
        let value = |values: &[&Value]| evaluate_inline(op, values, limit);
        let many = (operands > 3).then(|| self.places(index, operands));
        let value = match &many {
            Some(places) => self.with_values(places, value),
            None => self.with_operands(index, operands, value),
        };
        let Some(value) = value else { return false };
        let is_new = self.nodes.ext(index).is_none();
        let (mut trained, mut is_large) = (false, false);
        for which in 0..operands {
            let operand = many.as_ref().map_or_else(|| self.operand(index, which), |places| places[which]);
            trained |= self.trained(operand);
            if self.nodes.is_scheduled(operand) {
                let ext = self.nodes.ext_mut(operand);
                is_large |= ext.bytes > LARGE_VALUE_BYTES;
                ext.uses += u32::from(is_new);
            }
        }
        self.nodes.slot_mut(index).trained = trained;
        let discarded = self.deferred.values();
        if is_new {
            self.complete_new(index, operands, value);
        } else {
            self.complete_quietly(index, Ok(value));
        }
        // the operands of this node are plain data, those of others may not be
        if !is_large {
            self.deferred.drop_values_after(discarded);
        }
        if !is_new {
            self.notify_dependents();
        }
        true
    }

    /// Completes a new node, for which nothing waits yet. Its uses of the operands were never
    /// pending.
    fn complete_new(&mut self, index: u32, operands: usize, value: Value) {
        self.stats.evaluated();
        match Scalar::of(&value) {
            Some(number) => self.nodes.slot_mut(index).set_number(number),
            None => {
                self.nodes.ext_or_new(index).scheduled = true;
                let node = self.node(index);
                self.store(index, &node, Ok(value));
            }
        }
        if self.releases_values() {
            for which in 0..operands {
                let operand = self.operand(index, which);
                self.release_if_unused(operand);
            }
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
pub(super) mod tests {
    use crate::exec::Pass;
    use crate::exec::context::with_computing;
    use crate::{At, BuiltIn, Deltas, Differentiable, Do, Layer, Primitive, Result};
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    /// `x + 1`, as an operation of the library; it does something with the pass that it is computed
    /// for.
    #[derive(Clone)]
    pub(in crate::exec) struct Probe {
        nanoseconds: f64,
        does: Arc<Does>,
    }

    type Does = dyn Fn(&Arc<Pass>) + Send + Sync;

    impl Probe {
        pub(in crate::exec) fn new(nanoseconds: f64, does: impl Fn(&Arc<Pass>) + Send + Sync + 'static) -> Self {
            Probe { nanoseconds, does: Arc::new(does) }
        }
    }

    impl Primitive for Probe {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "probe"
        }

        fn value(&self, (x,): (&f64,)) -> Result<f64> {
            with_computing(|pass| (self.does)(pass.expect("it runs in a pass")));
            Ok(x + 1.0)
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            (Some(at.delta.clone()),)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            self.nanoseconds
        }
    }

    impl BuiltIn for Probe {
        const IS_PURE: bool = true;
    }

    pub(in crate::exec) fn chain(x: f64, probe: impl Fn() -> Probe) -> Layer<f64> {
        (0..100).fold(Layer::constant(x), |y, _| Layer::apply_built_in(probe(), (y,)))
    }

    pub(in crate::exec) fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(f)
    }

    /// Another thread wants the lock again and again while a traversal runs kernels inline.
    #[test]
    fn traversal_yields_lock_to_waiting_thread() {
        let (had, begun) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let slow = || {
            let (had, begun) = (had.clone(), begun.clone());
            Probe::new(900.0, move |pass| {
                assert!(pass.state.try_lock().is_err(), "it runs inline");
                if !begun.swap(true, Relaxed) {
                    let (had, pass) = (had.clone(), Arc::downgrade(pass));
                    thread::spawn(move || {
                        while let Some(pass) = pass.upgrade() {
                            drop(pass.state());
                            had.fetch_add(1, Relaxed);
                        }
                    });
                }
                thread::sleep(Duration::from_millis(1));
            })
        };
        let meanwhile = Arc::<AtomicUsize>::default();
        let last = {
            let (had, meanwhile) = (had.clone(), meanwhile.clone());
            Probe::new(900.0, move |_| meanwhile.store(had.load(Relaxed), Relaxed))
        };
        let end = Layer::apply_built_in(last, (chain(0.0, slow),));
        assert_eq!(on_threads(1, || end.predict().wait()).expect("it succeeds"), 101.0);
        assert!(meanwhile.load(Relaxed) > 0, "no other thread had the lock during 100 operations");
    }

    #[test]
    fn last_kernel_of_single_root_runs_inline() {
        let seen = Arc::<Mutex<Vec<bool>>>::default();
        let probe = || {
            let seen = seen.clone();
            let probe = Probe::new(3_000.0, move |pass| {
                let has_driver = pass.state.try_lock().is_ok_and(|state| !state.drivers.is_empty());
                seen.lock().expect("nobody panics").push(has_driver);
            });
            Layer::apply_built_in(probe, (Layer::constant(1.0),))
        };
        assert_eq!(on_threads(2, || probe().predict().wait()).expect("it succeeds"), 2.0);
        assert_eq!(*seen.lock().expect("nobody panics"), [false], "it was computed before a driver came");
        seen.lock().expect("nobody panics").clear();
        on_threads(2, || Do::predict(vec![probe(), probe(), probe()]).wait()).expect("it succeeds");
        assert_eq!(seen.lock().expect("nobody panics").first(), Some(&true), "others are asked to share these");
    }

    #[test]
    fn small_built_in_ops_stay_on_one_thread() {
        let threads = Arc::<Mutex<HashSet<ThreadId>>>::default();
        let probe = || {
            let threads = threads.clone();
            Probe::new(1_500.0, move |_| {
                threads.lock().expect("nobody panics").insert(thread::current().id());
                thread::sleep(Duration::from_micros(100)); // time for others to come
            })
        };
        let branch = |x| (0..4).fold(Layer::constant(x), |y, _| Layer::apply_built_in(probe(), (y,)));
        let branches: Vec<Layer<f64>> = (0..20).map(|x| branch(f64::from(x))).collect();
        let values = on_threads(2, || Do::predict(branches).wait()).expect("it succeeds");
        assert!(values.into_iter().eq((4..24).map(f64::from)));
        assert_eq!(threads.lock().expect("nobody panics").len(), 1);
    }

    /// The same as code of the user's.
    struct Users(Probe);

    impl Primitive for Users {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "users"
        }

        fn value(&self, operands: (&f64,)) -> Result<f64> {
            self.0.value(operands)
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            (Some(at.delta.clone()),)
        }

        fn cost(&self, operands: (&f64,)) -> f64 {
            self.0.cost(operands)
        }
    }

    /// Of twenty branches that begin when a dear operation has ended, the threads that compute the
    /// last operation of each in a training step: `last` of what does something there, after one
    /// that takes so long.
    fn threads_of_branches(first: f64, last: fn(Layer<f64>, Arc<Does>) -> Layer<f64>) -> HashSet<ThreadId> {
        let threads = Arc::<Mutex<HashSet<ThreadId>>>::default();
        let dear = Layer::apply_built_in(Probe::new(100_000.0, |_| ()), (Layer::constant(0.0),));
        let branch = |_| {
            let threads = threads.clone();
            let does = move |_: &Arc<Pass>| {
                threads.lock().expect("nobody panics").insert(thread::current().id());
                thread::sleep(Duration::from_micros(100)); // time for others to come
            };
            last(Layer::apply_built_in(Probe::new(first, |_| ()), (dear.clone(),)), Arc::new(does))
        };
        let sum = (0..20).map(branch).sum::<Layer<f64>>();
        let loss = on_threads(2, || sum.train(&crate::testing::Sgd::new(0.1)).wait());
        assert_eq!(loss.expect("it succeeds"), 60.0);
        let threads = threads.lock().expect("nobody panics");
        threads.clone()
    }

    fn of_the_library<const NANOSECONDS: u32>(x: Layer<f64>, does: Arc<Does>) -> Layer<f64> {
        Layer::apply_built_in(Probe { nanoseconds: f64::from(NANOSECONDS), does }, (x,))
    }

    /// The sum of its operands.
    pub(in crate::exec) struct Gather;

    impl Primitive for Gather {
        type Operands = Vec<Layer<f64>>;
        type Output = f64;

        fn name(&self) -> &'static str {
            "gather"
        }

        fn value(&self, terms: Vec<&f64>) -> Result<f64> {
            Ok(terms.into_iter().sum())
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            at.operands.iter().map(|_| Some(at.delta.clone())).collect()
        }
    }

    /// Each of them is queued; the traversal goes on with the next operand of the same node.
    #[test]
    fn kernels_below_node_with_many_operands_run_once() {
        let w = crate::Weight::new(2.0_f64);
        let ran = Arc::<Mutex<usize>>::default();
        let users = |x: Layer<f64>| {
            let ran = ran.clone();
            Layer::apply(Users(Probe::new(100.0, move |_| *ran.lock().expect("nobody panics") += 1)), (x,))
        };
        let build = || {
            let twice = users(&w * 3.0);
            let mut terms: Vec<_> = (0..5).map(|x| users(&w * f64::from(x))).collect();
            terms.extend([twice.clone(), w.layer(), twice, Layer::constant(0.5)]);
            Layer::apply(Gather, terms)
        };
        let truth = |w: f64| (0..5).map(|x| w * f64::from(x) + 1.0).sum::<f64>() + 2.0 * (3.0 * w + 1.0) + w + 0.5;
        for threads in [1, 2] {
            let y = build();
            // another live pass has the claims
            let tape = on_threads(threads, || y.forward().wait()).expect("it succeeds");
            assert_eq!(on_threads(threads, || y.predict().wait()).expect("it succeeds"), truth(w.value()));
            drop(tape);
            let before = w.value();
            let loss = on_threads(threads, || build().train(&crate::testing::Sgd::new(0.1)).wait());
            assert_eq!(loss.expect("it succeeds"), truth(before));
            assert_eq!(w.value(), before - 0.1 * (10.0 + 6.0 + 1.0));
            assert_eq!(std::mem::take(&mut *ran.lock().expect("nobody panics")), 3 * 6);
        }
    }

    #[test]
    fn small_ops_of_step_run_on_driver() {
        assert_eq!(threads_of_branches(1_500.0, of_the_library::<1_500>).len(), 1);
    }

    #[test]
    fn expensive_op_after_small_one_is_shared() {
        let both = (0..20).any(|_| threads_of_branches(1_500.0, of_the_library::<50_000>).len() == 2);
        assert!(both, "twenty operations of 50 µs were computed by one thread");
    }

    #[test]
    fn user_op_after_small_one_is_shared() {
        let users = |x, does| Layer::apply(Users(Probe { nanoseconds: 1_000.0, does }), (x,));
        let both = (0..20).any(|_| threads_of_branches(1_500.0, users).len() == 2);
        assert!(both, "twenty operations of the user's were computed by one thread");
    }
}
