//! One pass: a call of `predict`, `train` or `forward`, and everything it evaluates.
//!
//! A pass keeps its books in dense tables of its own (`books.rs`), behind its own lock; kernels
//! (`kernels.rs`) and bodies of dynamic nodes (`work.rs`) run outside that lock. Under it run only
//! estimates of costs and sizes, the rules that write down deltas, and small operations of the
//! library (`at_once.rs`, `alone.rs`). Whoever drives the pass works through its queue; other
//! threads of the rayon pool are only *offered* a share, by tickets, so nobody ever waits for a
//! thread to become free, and a `wait()` inside a worker cannot deadlock.

mod alone;
mod at_once;
mod bodies;
mod books;
mod chain;
mod claim;
#[allow(unsafe_code, reason = "a thread borrows the pass that it is polling: see the module")]
mod context;
mod counters;
mod crews;
mod discover;
mod drivers;
mod entry;
mod kernels;
mod queue;
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
mod values;
mod visits;
mod wakers;
mod watch;
mod width;
mod work;

pub(crate) use at_once::{evaluate_inline, longest_inline};
pub(crate) use books::Books;
pub(crate) use claim::Claim;
#[cfg(all(test, any(shuttle, loom)))]
pub(crate) use claim::Seat;
pub(crate) use context::{
    Holder, computing, computing_in_task, current, enter, in_pass, in_step, is_current, outside, parking,
    with_computing, with_current,
};
pub use counters::Counters;
pub(crate) use discover::arithmetic;
pub(crate) use entry::{Arithmetic, Entry, NONE, Scalar, Seen, Status};
pub(crate) use segment::Hold;
pub use settings::Mode;
pub(crate) use settings::Settings;
pub(crate) use tables::release;
pub(crate) use tickets::Owner;
pub(crate) use unshared::Begun;
pub(crate) use watch::Help;
pub(crate) use width::Width;

use crate::commit::{Update, is_stepping};
use crate::error::{Error, Result};
use crate::node::AnyLayer;
use crate::offer::AWAKE;
use crate::seed::Position;
use crate::sync::{
    AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, Patience, TryLockError, spin_loop, spins, yield_now,
};
use crate::value::Value;
use context::mode;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// They go as soon as nobody needs them.
    Nothing,
    /// They are kept for a backward.
    Values,
}

pub(crate) struct Pass {
    books: Mutex<Books>,
    mode: Mode,
    /// What it carries. The books have a copy of what is asked for under their lock.
    settings: Settings,
    events: Arc<Events>,
    /// How many owners it has: see `tickets.rs`.
    owners: AtomicUsize,
    /// How many threads wait for the books.
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

/// A few microseconds.
const SPINS: usize = spins(100);

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
        pass.settings.in_step |= is_stepping();
        pass.mode = pass.settings.mode.unwrap_or(pass.mode);
        pass.steps = purpose == Purpose::Step;
        let books = pass.books.get_mut().unwrap_or_else(PoisonError::into_inner);
        let keep = if purpose == Purpose::Predict { Keep::Nothing } else { Keep::Values };
        books.open(keep, &pass.settings);
        if let Some(origin) = origin {
            books.note_position(origin);
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
        self.books_mut().of_around = self.around.clone();
        around.books().origin()
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
        let books = self.books();
        let index = books.find(layer)?;
        self.looks(&books, index);
        books.outcome(index)
    }

    /// What a commit has to know: the updates of buffers that were evaluated.
    ///
    /// # Errors
    /// The panic of a destructor that nobody has heard of.
    pub(crate) fn before_commit(&self, updates: &mut Vec<Update>) -> Result<()> {
        let mut books = self.books();
        books.updates(updates);
        books.fault.take().map_or(Ok(()), Err)
    }

    /// Releases all values, if the caller is the only owner, and nothing is queued or running that
    /// may need them: while the pass has the values of weights, these are copied before they change.
    pub(crate) fn let_go_of_values(self: &Arc<Self>) {
        if Owner::is_only(self) {
            let mut books = self.books();
            if books.running == 0 && books.queue.len() == 0 {
                books.discard_all_values();
            }
            self.release(books);
        }
    }

    /// What was to be written has been written.
    pub(crate) fn after_commit(&self) {
        self.books().updates.clear();
    }

    pub(crate) fn has_updates(&self) -> bool {
        !self.books().updates.is_empty()
    }

    /// Whether it was begun in the middle of a training step.
    pub(crate) fn is_in_step(&self) -> bool {
        self.settings.in_step
    }

    pub(crate) fn keep(&self) -> Keep {
        self.books().keep
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn counters(&self) -> Counters {
        let reused_buffers = self.reused_buffers.load(Ordering::Relaxed);
        Counters { reused_buffers, parallel_width: self.width.most(), ..self.books().counters() }
    }

    pub(crate) fn width(&self) -> &Width {
        &self.width
    }

    #[inline]
    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books_at_once().unwrap_or_else(|| self.wait_for_books())
    }

    /// The books, if nobody has them.
    #[inline]
    fn books_at_once(&self) -> Option<MutexGuard<'_, Books>> {
        match self.books.try_lock() {
            Ok(books) => Some(books),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same, if nobody has them for long.
    fn books_if_free(&self) -> Option<MutexGuard<'_, Books>> {
        (0..SPINS).find_map(|_| {
            let books = self.books_at_once();
            if books.is_none() {
                spin_loop();
            }
            books
        })
    }

    #[cold]
    fn wait_for_books(&self) -> MutexGuard<'_, Books> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        // the books are never held for long, and parking a thread costs more than waiting for its
        // turn
        let books = self.books_if_free();
        let books = books.unwrap_or_else(|| self.books.lock().unwrap_or_else(PoisonError::into_inner));
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        books
    }

    fn tell_news(&self) {
        self.events.notify();
    }

    /// Releases the lock, lets in the threads that wait for it, and takes it again.
    fn yield_lock<'a>(self: &'a Arc<Self>, books: MutexGuard<'a, Books>) -> MutexGuard<'a, Books> {
        self.release(books);
        let waits = || self.wanted.load(Ordering::Relaxed) > 0;
        if waits()
            && !(0..SPINS).any(|_| {
                spin_loop();
                !waits()
            })
        {
            // it has parked, and takes a while to wake
            let since = Patience::new();
            while waits() && since.lasts(AWAKE) {
                yield_now();
            }
        }
        self.books()
    }

    /// Enters these layers, and all that they need, into the books. What is cheap is evaluated at
    /// once.
    pub(crate) fn request(self: &Arc<Self>, layers: &[AnyLayer]) {
        let mut books = self.books();
        for layer in layers {
            books = self.discover(books, layer).0;
        }
        self.offer(books);
    }

    /// The value of a layer, or a promise to wake up when it is there.
    pub(crate) fn poll_value(self: &Arc<Self>, layer: &AnyLayer, waker: &Waker) -> Poll<Result<Value>> {
        let books = self.books();
        if books.retired {
            return Poll::Ready(Err(Error::cancelled()));
        }
        // a number that is there needs none of what follows
        if !self.is_watched()
            && let Some(number) = books.find(layer).and_then(|index| books.entry(index).number())
        {
            return Poll::Ready(Ok(number.into()));
        }
        let (mut books, index) = self.discover(books, layer);
        books.evaluate_again(index);
        self.looks(&books, index);
        let ended = match books.outcome(index) {
            Some(ended) => ended,
            None if books.drivers.nobody() => Err(Error::cancelled()),
            None => {
                books.wake_when_done(index, waker);
                self.offer(books);
                return Poll::Pending;
            }
        };
        self.release(books);
        Poll::Ready(ended)
    }

    /// Adds how the first of these layers have ended, up to one that has not.
    pub(crate) fn outcomes(self: &Arc<Self>, layers: &[AnyLayer], outcomes: &mut Vec<Result<Value>>) {
        let books = self.books();
        for layer in layers {
            let Some(index) = books.find(layer) else { break };
            let Some(ended) = books.outcome(index) else { break };
            self.looks(&books, index);
            outcomes.push(ended);
        }
    }

    /// A run starts to drive the pass. What was left undone when the last driver left is taken up
    /// again.
    pub(crate) fn arrive(&self) -> u32 {
        if let (Some(log), Some(recorder)) = (&self.watch.log, &self.settings.recorder) {
            recorder.goes_on(log);
        }
        self.watch_goes_on();
        let mut books = self.books();
        books.resume();
        books.drivers.arrive()
    }

    /// The same for the run that a pass was begun for: others may have helped before it came.
    pub(crate) fn arrive_first(&self) -> u32 {
        let expected = self.books().drivers.take_expected();
        expected.unwrap_or_else(|| self.arrive())
    }

    /// The same for a run that need not come.
    pub(crate) fn do_without(self: &Arc<Self>) {
        let expected = self.books().drivers.take_expected();
        if let Some(driver) = expected {
            self.leave(driver);
        }
    }

    /// A driver is through, or was dropped. When it was the last one, the pass rests: futures are
    /// dropped, nothing is started any more, and whoever still waits for a value is told.
    pub(crate) fn leave(self: &Arc<Self>, driver: u32) {
        let mut books = self.books();
        books.drivers.leave(driver);
        let mut tasks = Vec::new();
        let rests = books.drivers.nobody();
        if rests {
            self.tell_rest(&books);
            tasks = books.rest();
        } else {
            // it may have been the one who was woken for what is queued
            self.share(&mut books, false);
        }
        self.release(books);
        if rests {
            self.watch_rests(); // in the code of a subscriber: outside of the lock
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(tasks))) {
            self.books().fault.get_or_insert(Error::panic(payload));
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
