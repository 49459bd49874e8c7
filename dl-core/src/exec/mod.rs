//! One pass: a call of `predict`, `train` or `forward`, and everything it evaluates.
//!
//! A pass keeps its state in dense tables of its own (`books.rs`), behind its own lock; kernels
//! (`kernels.rs`) and bodies of dynamic nodes (`work.rs`) run outside that lock. Under it run only
//! estimates of costs and sizes, the rules that write down deltas, and small operations of the
//! library (`at_once.rs`, `alone.rs`). Whoever drives the pass works through its queue; other
//! threads of the rayon pool are only *offered* a share, by tickets, so nobody ever waits for a
//! thread to become free, and a `wait()` inside a worker cannot deadlock.

mod alone;
mod at_once;
pub(crate) mod block_on;
mod bodies;
mod books;
mod chain;
mod claim;
#[allow(unsafe_code, reason = "a thread borrows the pass that it is polling: see the module")]
mod context;
mod counters;
mod crews;
mod discover;
mod dispatch;
mod drivers;
mod entry;
mod index;
mod kernels;
mod queue;
pub(crate) mod run;
mod schedule;
mod segment;
mod settings;
mod sweep;
pub(crate) mod tables;
mod tasks;
mod telling;
mod tickets;
#[allow(unsafe_code, reason = "whether an `Arc` is the only one is not asked: see the module")]
mod unshared;
pub(crate) mod user_code;
mod values;
mod visits;
mod wakers;
mod watch;
mod width;
mod work;

pub(crate) use at_once::evaluate_inline;
pub(crate) use books::PassState;
pub(crate) use claim::Claim;
#[cfg(all(test, any(shuttle, loom)))]
pub(crate) use claim::Seat;
pub(crate) use context::{
    Holder, computing, computing_in_task, current, enter, in_pass, in_step, is_current, outside, parking,
    with_computing, with_current,
};
pub use counters::Counters;
pub(crate) use discover::arithmetic;
pub(crate) use dispatch::inline_limit;
pub(crate) use entry::{Arithmetic, NONE, NodeSlot, Scalar, Status, ValueRef};
pub(crate) use segment::Hold;
pub use settings::Mode;
pub(crate) use settings::Settings;
pub(crate) use tables::release;
pub(crate) use tickets::Owner;
pub(crate) use unshared::Begun;
pub(crate) use watch::Help;
pub(crate) use width::Width;

use crate::error::{Error, Result};
use crate::graph::node_ref::AnyLayer;
use crate::graph::seed::Position;
use crate::graph::value::Value;
use crate::parallel::injector::IDLE_TIMEOUT;
use crate::parallel::sync::{
    AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, Patience, TryLockError, spin_loop, yield_now,
};
use crate::step::commit::{Update, in_optimizer_step};
use context::mode;
use dispatch::LOCK_SPINS;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Poll, Waker};
use tickets::Events;
use unshared::Unshared;
use watch::Watch;

/// What a pass is for.
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

/// What becomes of the values.
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
    /// What it carries. The state have a copy of what is asked for under their lock.
    settings: Settings,
    events: Arc<Events>,
    /// How many owners it has: see `tickets.rs`.
    owners: AtomicUsize,
    /// How many threads wait for the state.
    wanted: AtomicUsize,
    /// Whether a driver has nothing to do and looks for news, and nobody has left something to him.
    lingering: AtomicBool,
    /// Whether the weights are being changed, under their locks.
    commits: AtomicBool,
    /// How often a kernel took a free buffer.
    reused_buffers: AtomicUsize,
    width: Width,
    watch: Watch,
    /// The pass in which this one was begun.
    around: Option<Weak<Pass>>,
    /// Whether weights change in the end: whoever has their values then makes copies of them.
    steps: bool,
}

/// A kernel of the pass that this thread computes for has taken a free buffer.
pub(crate) fn note_reuse() {
    context::with_computing(|pass| {
        if let Some(pass) = pass {
            pass.reused_buffers.fetch_add(1, Ordering::Relaxed);
        }
    });
}

impl Pass {
    /// A pass with these settings; what they leave open is that of the pass around it.
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
        let state = pass.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let keep = if purpose == Purpose::Predict { Keep::Nothing } else { Keep::Values };
        state.begin(keep, &pass.settings);
        if let Some(origin) = origin {
            state.env.note_position(origin);
        }
        pass.begin_watch(purpose);
        fresh
    }

    /// What this pass has of the one around it. A derivative is that of the very values there,
    /// random ones too: what positions are counted from, if that is settled, is returned.
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

    /// These settings, for a pass inside this one; what they leave open is that of this pass. Its
    /// random numbers are others, which depend on where it is started.
    pub(crate) fn inherited(&self, settings: Settings) -> Settings {
        let seed = settings.seed.or_else(|| self.settings.seed.map(|seed| Position::next().mix(seed)));
        let made_at = settings.made_at.or(self.settings.made_at);
        Settings { seed, made_at, ..settings }.or(&self.settings)
    }

    /// The value of a layer, or why there is none, if it has been evaluated.
    pub(crate) fn value_at_hand(&self, layer: &AnyLayer) -> Option<Result<Value>> {
        let state = self.state();
        let index = state.find(layer)?;
        self.looks(&state, index);
        state.outcome(index)
    }

    /// What a commit has to know: the updates of buffers that were evaluated.
    ///
    /// # Errors
    /// The panic of a destructor that nobody has heard of.
    pub(crate) fn before_commit(&self, updates: &mut Vec<Update>) -> Result<()> {
        let mut state = self.state();
        state.updates(updates);
        state.deferred.take_fault()
    }

    /// Releases all values, if the caller is the only owner, and nothing is queued or running that
    /// may need them: while the pass has the values of weights, these are copied before they change.
    pub(crate) fn let_go_of_values(self: &Arc<Self>) {
        if Owner::is_only(self) {
            let mut state = self.state();
            if state.workers.running() == 0 && state.ready.len() == 0 {
                state.discard_all_values();
            }
            self.release(state);
        }
    }

    /// What was to be written has been written.
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

    pub(crate) fn counters(&self) -> Counters {
        let reused_buffers = self.reused_buffers.load(Ordering::Relaxed);
        Counters { reused_buffers, parallel_width: self.width.most(), ..self.state().counters() }
    }

    pub(crate) fn width(&self) -> &Width {
        &self.width
    }

    #[inline]
    pub(crate) fn state(&self) -> MutexGuard<'_, PassState> {
        self.try_state().unwrap_or_else(|| self.wait_for_state())
    }

    /// The state, if nobody has them.
    #[inline]
    fn try_state(&self) -> Option<MutexGuard<'_, PassState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same, if nobody has them for long.
    fn spin_for_state(&self) -> Option<MutexGuard<'_, PassState>> {
        (0..LOCK_SPINS).find_map(|_| {
            let state = self.try_state();
            if state.is_none() {
                spin_loop();
            }
            state
        })
    }

    #[cold]
    fn wait_for_state(&self) -> MutexGuard<'_, PassState> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        // the state are never held for long, and parking a thread costs more than waiting for its
        // turn
        let state = self.spin_for_state();
        let state = state.unwrap_or_else(|| self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        state
    }

    fn tell_news(&self) {
        self.events.notify();
    }

    /// Releases the lock, lets in the threads that wait for it, and takes it again.
    fn yield_lock<'a>(self: &'a Arc<Self>, state: MutexGuard<'a, PassState>) -> MutexGuard<'a, PassState> {
        self.release(state);
        let waits = || self.wanted.load(Ordering::Relaxed) > 0;
        if waits()
            && !(0..LOCK_SPINS).any(|_| {
                spin_loop();
                !waits()
            })
        {
            // it has parked, and takes a while to wake
            let since = Patience::new();
            while waits() && since.lasts(IDLE_TIMEOUT) {
                yield_now();
            }
        }
        self.state()
    }

    /// Enters these layers, and all that they need, into the state. What is cheap is evaluated at
    /// once.
    pub(crate) fn request(self: &Arc<Self>, layers: &[AnyLayer]) {
        let mut state = self.state();
        for layer in layers {
            state = self.discover(state, layer).0;
        }
        self.offer(state);
    }

    /// The value of a layer, or a promise to wake up when it is there.
    pub(crate) fn poll_value(self: &Arc<Self>, layer: &AnyLayer, waker: &Waker) -> Poll<Result<Value>> {
        let state = self.state();
        if state.workers.is_retired() {
            return Poll::Ready(Err(Error::cancelled()));
        }
        // a number that is there needs none of what follows
        if !self.is_watched()
            && let Some(number) = state.find(layer).and_then(|index| state.entry(index).number())
        {
            return Poll::Ready(Ok(number.into()));
        }
        let (mut state, index) = self.discover(state, layer);
        state.rematerialize(index);
        self.looks(&state, index);
        let ended = match state.outcome(index) {
            Some(ended) => ended,
            None if state.drivers.is_empty() => Err(Error::cancelled()),
            None => {
                state.wake_when_done(index, waker);
                self.offer(state);
                return Poll::Pending;
            }
        };
        self.release(state);
        Poll::Ready(ended)
    }

    /// Adds how the first of these layers have ended, up to one that has not.
    pub(crate) fn outcomes(self: &Arc<Self>, layers: &[AnyLayer], outcomes: &mut Vec<Result<Value>>) {
        let state = self.state();
        for layer in layers {
            let Some(index) = state.find(layer) else { break };
            let Some(ended) = state.outcome(index) else { break };
            self.looks(&state, index);
            outcomes.push(ended);
        }
    }

    /// A run starts to drive the pass. What was left undone when the last driver left is taken up
    /// again.
    pub(crate) fn arrive(&self) -> u32 {
        if let (Some(log), Some(recorder)) = (&self.watch.log, &self.settings.recorder) {
            recorder.resume(log);
        }
        self.watch_goes_on();
        let mut state = self.state();
        state.resume();
        state.drivers.arrive()
    }

    /// The same for the run that a pass was begun for: others may have helped before it came.
    pub(crate) fn arrive_first(&self) -> u32 {
        let expected = self.state().drivers.take_expected();
        expected.unwrap_or_else(|| self.arrive())
    }

    /// The same for a run that need not come.
    pub(crate) fn do_without(self: &Arc<Self>) {
        let expected = self.state().drivers.take_expected();
        if let Some(driver) = expected {
            self.leave(driver);
        }
    }

    /// A driver is through, or was dropped. When it was the last one, the pass rests: futures are
    /// dropped, nothing is started any more, and whoever still waits for a value is told.
    pub(crate) fn leave(self: &Arc<Self>, driver: u32) {
        let mut state = self.state();
        state.drivers.leave(driver);
        let mut tasks = Vec::new();
        let rests = state.drivers.is_empty();
        if rests {
            self.tell_rest(&state);
            tasks = state.rest();
        } else {
            // it may have been the one who was woken for what is queued
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

/// A pass that goes without having been parted from: somebody else was at work in it when the last
/// run ended, or nobody ever ran.
impl Drop for Pass {
    fn drop(&mut self) {
        self.end_watch();
    }
}
