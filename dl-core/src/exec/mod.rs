//! One evaluation pass: a call of `predict`, `train` or `forward`.
//!
//! All bookkeeping lies in [`PassState`], behind one mutex, the *state lock*. Kernels and the
//! futures of dynamic nodes run without it.
//!
//! The thread that waits for the pass works through its ready queue. Workers of the rayon pool are
//! invited to help, but never required, so a `wait()` inside a worker cannot deadlock.
//!
//! # Who is who
//!
//! - *Owner*: a run, a tape, or gradients. When the last owner is dropped the pass is retired, and
//!   its values are released (`lifetime.rs`).
//! - *Driver*: a [`Run`](crate::Run) that is polled to get a value of the pass (`drivers.rs`). Its
//!   thread may compute inside `wait()` and in workers of the pool, but not under another executor.
//!   A pass without drivers rests: it starts nothing.
//! - *Helper*: a worker of the pool that runs jobs of the pass (`worker.rs`). It holds a ticket, a
//!   weak handle, so it keeps no value alive.
//! - *Task*: the future of a dynamic node, once it has waited (`tasks.rs`).
//!
//! # From a layer to its value
//!
//! A traversal inserts the layer and all that it depends on into the node table (`discover.rs`).
//! Scalar arithmetic is evaluated there. Other nodes wait for their operands (`readiness.rs`), and
//! run where `dispatch.rs` says: inline (`inline.rs`), or from the ready queue (`ready_queue.rs`,
//! `kernel.rs`). A completed node notifies its dependents. Values are released when they are not
//! needed (`retention.rs`), and slots when their nodes are unreachable (`sweep.rs`). Futures of
//! values are in `extract.rs`.
//!
//! # States of a slot
//!
//! `Free -> Pending -> F32 | F64 | Ready | Failed`; `Ready -> Released -> Pending` when a value is
//! rematerialized (`remat.rs`); any completed state `-> Free`. See `node_table.rs`.
//!
//! # Invariants
//!
//! 1. A slot is pending while it waits for inputs, or its job is queued or running.
//! 2. Operands are inserted before their consumer.
//! 3. A node has at most one slot in a pass. It is found by its stamp, in the fallback map, or, if
//!    it is uniquely referenced, through its consumer only.
//! 4. A value may be released only when no consumer is pending, and every handle to its node
//!    belongs to the pass or to a consumer.
//! 5. Every node in the table is kept alive by a root handle of the pass, directly or from above.
//! 6. A thread that holds the number of a slot without the lock must count as running
//!    (`Workers::running`): the table is not taken out of the pass meanwhile.
//! 7. A retired pass gets no owner and no driver any more.
//!
//! # Locks, outermost first
//!
//! 1. The commit locks of variables, in the order of their numbers; then the state of the
//!    optimizer.
//! 2. The state lock of a pass; then that of the pass around it, for the value of a weight only.
//! 3. The lock of a record, and that of the value of a variable: nothing is taken inside.
//!
//! A thread that may hold a lock of user code, or a commit lock, must not wait for the state lock:
//! to announce a kernel that it divides it only tries to take it (`regions.rs`).
//!
//! # User code
//!
//! Without the state lock: kernels of user operations, bodies, hand-written backwards, wakers, and
//! destructors of values. With it: estimates of costs and sizes, descriptions of values, pullback
//! and pushforward rules, sums of deltas, and the destructors of nodes that are swept. Every call
//! goes through `user_code.rs`, where a panic becomes an error.

pub(crate) mod block_on;
mod body_cost;
pub(crate) mod buffer_update;
pub(crate) mod by_mode;
pub(crate) mod computation;
#[allow(unsafe_code, reason = "a thread borrows the pass that it is polling: see the module")]
mod context;
mod discover;
mod dispatch;
mod drivers;
#[allow(unsafe_code, reason = "whether an `Arc` is the only one is not asked: see the module")]
mod exclusive_pass;
pub(crate) mod extract;
pub(crate) mod groups;
mod inline;
mod kernel;
pub(crate) mod later;
mod lifetime;
mod node_index;
mod node_table;
pub(crate) mod optimizer_step;
mod readiness;
mod ready_queue;
mod recording;
mod regions;
mod remat;
mod retention;
pub(crate) mod run;
mod settings;
pub(crate) mod snapshot;
mod state;
mod stats;
mod sweep;
mod task_waker;
mod tasks;
mod trace;
pub(crate) mod user_code;
pub(crate) mod vec_pool;
mod worker;

pub(crate) use context::{
    PassRef, computing, computing_in_task, current, discards_values, in_step, is_current, outside, parking,
    with_computing, with_current,
};
pub(crate) use discover::arithmetic;
pub(crate) use dispatch::{INLINE_BACKWARD_NS, inline_limit};
pub(crate) use exclusive_pass::Begun;
pub(crate) use inline::evaluate_inline;
pub(crate) use lifetime::Owner;
pub(crate) use node_table::{Arithmetic, NONE, NodeSlot, Status, ValueRef};
pub(crate) use remat::RetainGuard;
pub use settings::Mode;
pub(crate) use settings::{Settings, check_instructions};
pub(crate) use state::PassState;
pub use stats::Counters;
pub(crate) use trace::Help;

use crate::error::{Error, Result};
use crate::exec::buffer_update::Update;
use crate::exec::optimizer_step::in_optimizer_step;
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use crate::graph::value::Value;
use context::mode;
use dl_parallel::backoff::{spin, wait};
use dl_parallel::concurrency::Width;
use dl_parallel::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, TryLockError};
use dl_parallel::thresholds::LOCK_SPINS;
use exclusive_pass::Unshared;
use lifetime::Events;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Poll, Waker};
use trace::Watch;

/// The purpose of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Values only, to evaluate.
    Predict,
    /// Values, and a backward.
    Train,
    /// The same, and weights that change in the end.
    Step,
    /// Values, and a backward for the sake of a derivative: it neither trains nor evaluates by
    /// itself.
    Derive,
}

/// Whether values are retained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keep {
    /// They are released as soon as they are not needed.
    #[default]
    Nothing,
    /// They are kept for a backward.
    Values,
}

pub(crate) struct Pass {
    state: Mutex<PassState>,
    mode: Mode,
    /// Those that are read with the lock held are copied into the state.
    settings: Settings,
    events: Arc<Events>,
    /// How many owners it has: see `lifetime.rs`.
    owners: AtomicUsize,
    /// How many threads wait for the state lock. A hint, so relaxed: the lock orders everything
    /// else.
    lock_waiters: AtomicUsize,
    /// Whether a driver without work spins for an event, and no helper has left it a job. A hint,
    /// so relaxed.
    driver_spins: AtomicBool,
    /// Whether the weights are being changed, under their commit locks. Read by the thread that
    /// changes them, so relaxed.
    commits: AtomicBool,
    /// How often a kernel took a free buffer. A counter, so relaxed.
    reused_buffers: AtomicUsize,
    width: Width,
    watch: Watch,
    /// The pass in which this one was begun.
    around: Option<Weak<Pass>>,
    /// Whether weights change in the end: a value that is still in use then is copied.
    steps: bool,
    /// Whether values are released as soon as no operation needs them: those of `PassState::keep`,
    /// for kernels, which may run with the state lock held.
    discards: bool,
}

impl Pass {
    /// A pass with these settings. Settings that are not given are those of the pass around it.
    pub(crate) fn new(purpose: Purpose, settings: &Settings) -> Arc<Pass> {
        Pass::unshared(purpose, settings).share()
    }

    fn unshared(purpose: Purpose, settings: &Settings) -> Unshared {
        let mut fresh = Unshared::take();
        let pass = &mut *fresh;
        debug_assert!(pass.around.is_none(), "the pass before is over");
        pass.settings = settings.clone();
        pass.mode = if purpose == Purpose::Predict { Mode::Evaluate } else { Mode::Train };
        let origin = with_current(|around| around.and_then(|around| pass.begin_inside(around, purpose)));
        pass.settings.in_step |= in_optimizer_step();
        pass.mode = pass.settings.mode.unwrap_or(pass.mode);
        pass.steps = purpose == Purpose::Step;
        let keep = if purpose == Purpose::Predict { Keep::Nothing } else { Keep::Values };
        pass.discards = keep == Keep::Nothing;
        let state = pass.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.begin(keep, pass.mode, &pass.settings);
        if let Some(origin) = origin {
            state.env.note_position(origin);
        }
        pass.begin_watch(purpose);
        fresh
    }

    /// Takes over the settings of the pass around this one. A derivative is that of the same
    /// values, random ones too: so the origin of positions is returned, if it is settled.
    #[inline(never)]
    fn begin_inside(&mut self, around: &Arc<Pass>, purpose: Purpose) -> Option<Position> {
        let settings = std::mem::take(&mut self.settings);
        self.around = Some(Arc::downgrade(around));
        if purpose != Purpose::Derive {
            self.settings = around.inherited(settings);
            return None;
        }
        self.settings = settings.or(&around.settings);
        self.mode = around.mode;
        self.state_mut().env.set_parent(Arc::downgrade(around));
        around.state().env.origin()
    }

    /// These settings, for a pass inside this one. Settings that are not given are those of this
    /// pass. The inner pass has other random numbers, which depend on where it is started.
    pub(crate) fn inherited(&self, settings: Settings) -> Settings {
        let seed = settings.seed.or_else(|| self.settings.seed.map(|seed| Position::next().mix(seed)));
        let made_at = settings.made_at.or(self.settings.made_at);
        Settings { seed, made_at, ..settings }.or(&self.settings)
    }

    /// Whether values are released as soon as no operation needs them.
    pub(crate) fn discards(&self) -> bool {
        self.discards
    }

    /// The value of a layer, or why there is none, if it has been evaluated.
    pub(crate) fn value_at_hand(&self, layer: &NodeRef) -> Option<Result<Value>> {
        let state = self.state();
        let index = state.find(layer)?;
        self.looks(&state, index);
        state.outcome(index)
    }

    /// Collects the updates of buffers that were evaluated, for a commit.
    ///
    /// # Errors
    /// The panic of a destructor that was not reported yet.
    pub(crate) fn before_commit(&self, updates: &mut Vec<Update>) -> Result<()> {
        let mut state = self.state();
        state.updates(updates);
        state.deferred.take_fault()
    }

    /// Releases all values, if the caller is the only owner, and nothing is queued or running that
    /// may need them: while the pass has the values of weights, these are copied before they
    /// change.
    pub(crate) fn let_go_of_values(self: &Arc<Self>) {
        if Owner::is_only(self) {
            let mut state = self.state();
            if state.workers.running == 0 && state.ready.len() == 0 && state.tasks.reads.is_empty() {
                state.discard_all_values();
            }
            self.release(state);
        }
    }

    /// The updates of buffers have been written.
    pub(crate) fn after_commit(&self) {
        self.state().retention.clear_updates();
    }

    pub(crate) fn has_updates(&self) -> bool {
        self.state().retention.has_updates()
    }

    /// Whether it was begun in the middle of a training step.
    pub(crate) fn is_in_step(&self) -> bool {
        self.settings.in_step
    }

    pub(crate) fn keep(&self) -> Keep {
        self.state().keep()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn seed(&self) -> Option<u64> {
        self.settings.seed
    }

    pub(crate) fn counters(&self) -> Counters {
        let reused_buffers = self.reused_buffers.load(Ordering::Relaxed);
        Counters { reused_buffers, parallel_width: self.width.most(), ..self.state().counters() }
    }

    #[inline]
    pub(crate) fn state(&self) -> MutexGuard<'_, PassState> {
        self.try_state().unwrap_or_else(|| self.wait_for_state())
    }

    /// The state, if its lock is free.
    #[inline]
    fn try_state(&self) -> Option<MutexGuard<'_, PassState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    fn wait_for_state(&self) -> MutexGuard<'_, PassState> {
        self.lock_waiters.fetch_add(1, Ordering::Relaxed);
        // the lock is never held for long, and to park costs more than to spin
        let mut state = None;
        spin(LOCK_SPINS, || {
            state = self.try_state();
            state.is_some()
        });
        let state = state.unwrap_or_else(|| self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.lock_waiters.fetch_sub(1, Ordering::Relaxed);
        state
    }

    fn notify_events(&self) {
        self.events.notify();
    }

    /// Releases the lock, lets in the threads that wait for it, and takes it again.
    fn yield_lock<'a>(self: &'a Arc<Self>, state: MutexGuard<'a, PassState>) -> MutexGuard<'a, PassState> {
        self.release(state);
        // a thread that has parked takes a while to wake
        let is_free = || self.lock_waiters.load(Ordering::Relaxed) == 0;
        if !is_free() {
            wait(is_free);
        }
        self.state()
    }

    /// Inserts these layers, and all that they depend on.
    pub(crate) fn request(self: &Arc<Self>, layers: &[NodeRef]) {
        let mut state = self.state();
        for layer in layers {
            self.discover(&mut state, layer);
        }
        self.offer(state);
    }

    /// The value of a layer, or a promise to wake up when it is there.
    pub(crate) fn poll_value(self: &Arc<Self>, layer: &NodeRef, waker: &Waker) -> Poll<Result<Value>> {
        let mut state = self.state();
        let polled = self.poll_layer(&mut state, layer, waker);
        if polled.is_pending() {
            self.offer(state)
        } else {
            self.release(state)
        }
        polled
    }

    /// Adds the results of these layers, after those that are known, and says whether all are
    /// known. If not, promises to wake up when the next one is.
    pub(crate) fn poll_values(
        self: &Arc<Self>,
        layers: &[NodeRef],
        results: &mut Vec<Result<Value>>,
        waker: &Waker,
    ) -> Poll<()> {
        let mut state = self.state();
        while let Some(layer) = layers.get(results.len()) {
            match self.poll_layer(&mut state, layer, waker) {
                Poll::Ready(result) => results.push(result),
                Poll::Pending => {
                    self.offer(state);
                    return Poll::Pending;
                }
            }
        }
        self.release(state);
        Poll::Ready(())
    }

    fn poll_layer(self: &Arc<Self>, state: &mut PassState, layer: &NodeRef, waker: &Waker) -> Poll<Result<Value>> {
        if state.workers.retired {
            return Poll::Ready(Err(Error::cancelled()));
        }
        // the fast path for a number
        if !self.is_watched()
            && let Some(number) = state.find(layer).and_then(|index| state.entry(index).number())
        {
            return Poll::Ready(Ok(number.into()));
        }
        let index = self.discover(state, layer);
        state.rematerialize(index);
        self.looks(state, index);
        match state.outcome(index) {
            Some(ended) => Poll::Ready(ended),
            None if state.drivers.is_empty() => Poll::Ready(Err(Error::cancelled())),
            None => {
                state.wake_when_done(index, waker);
                Poll::Pending
            }
        }
    }

    /// A run begins to drive the pass. Bodies that were interrupted when the last driver left begin
    /// anew.
    pub(crate) fn arrive(&self) -> u32 {
        if let (Some(log), Some(recorder)) = (&self.watch.log, &self.settings.recorder) {
            recorder.resume(log);
        }
        self.watch_goes_on();
        let mut state = self.state();
        state.resume();
        state.drivers.arrive()
    }

    /// A driver has ended, or was dropped. When it was the last one, the pass rests: futures are
    /// dropped, nothing is started any more, and all wakers are called.
    pub(crate) fn leave(self: &Arc<Self>, driver: u32) {
        let mut state = self.state();
        state.drivers.leave(driver);
        let mut tasks = Vec::new();
        let rests = state.drivers.is_empty();
        if rests {
            self.tell_rest(&state);
            tasks = state.rest();
        } else {
            // it may have been the driver that was woken for the queued jobs
            self.share(&mut state, false);
        }
        self.release(state);
        if rests {
            self.watch_rests(); // in the code of a subscriber: outside of the lock
        }
        if let Err(error) = user_code::run(|| drop(tasks)) {
            self.state().deferred.set_fault(error);
        }
    }
}

/// A pass that was not closed: a helper held it when the last owner was dropped.
impl Drop for Pass {
    fn drop(&mut self) {
        self.end_watch();
    }
}
