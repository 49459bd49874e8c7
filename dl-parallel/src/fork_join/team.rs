//! A region: the chunks of a kernel, and the threads that work on them.

use crate::backoff::round;
use crate::fork_join::RegionObserver;
use crate::injector::offer;
use crate::panic_payload::drop_payload;
use crate::sync::{AtomicUsize, Deadline, Mutex, MutexGuard, Ordering, Thread, current, park, thread_local};
use crate::thread_number::thread_number;
use crate::thresholds::IDLE_TIMEOUT;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

/// The work of a region, and the observer of the thread that divides it.
pub(super) struct TeamWork<'a> {
    pub(super) work: &'a (dyn Fn(usize) + Sync),
    pub(super) observer: Option<&'a dyn RegionObserver>,
}

/// A parallel region: the chunks and the state of the threads that work on them.
pub struct Team {
    chunks: usize,
    /// The maximum number of threads at work for the observer.
    threads: usize,
    /// For each range, the next chunk that is not taken.
    ranges: SmallVec<[AtomicUsize; 4]>,
    /// One bit per range that a thread has started with.
    claimed: AtomicUsize,
    /// Chunks from this index on are not started. Lowered by a panic.
    end: AtomicUsize,
    /// Twice the number of helpers inside, plus [`CLOSED`] once no helper may enter.
    latch: AtomicUsize,
    /// Borrowed from the caller until the region is closed and no helper is inside.
    job: ScopedWorkPtr,
    caller: Thread,
    /// The first chunk that panicked, with its payload.
    panic: Mutex<Option<(usize, Box<dyn Any + Send>)>>,
    /// The parent region, if this one divides a chunk of it.
    parent: Option<Arc<Team>>,
    /// The child regions, which divide chunks of this one, and their number.
    children: Mutex<SmallVec<[Arc<Team>; 2]>>,
    child_count: AtomicUsize,
}

thread_local! {
    /// The region of the chunk that this thread is running.
    static CURRENT_TEAM: RefCell<Option<Arc<Team>>> = const { RefCell::new(None) };
}

/// Runs `work`, which is unrelated to the chunk that this thread may be running.
pub fn outside_team<R>(work: impl FnOnce() -> R) -> R {
    let _restore = RestoreTeam(set_current_team(None));
    work()
}

/// Restores the current region of this thread.
struct RestoreTeam(Option<Arc<Team>>);

impl Drop for RestoreTeam {
    fn drop(&mut self) {
        drop(set_current_team(self.0.take()));
    }
}

/// Returns the previous region, or `None` while the thread's locals are being destroyed.
fn set_current_team(team: Option<Arc<Team>>) -> Option<Arc<Team>> {
    CURRENT_TEAM.try_with(|current| current.replace(team)).ok().flatten()
}

const CLOSED: usize = 1;
const HELPER: usize = 2;

/// The first chunk of a range.
pub(super) fn range_start(range: usize, ranges: usize, chunks: usize) -> usize {
    range * (chunks / ranges) + range.min(chunks % ranges)
}

/// The preferred range of this thread.
pub(super) fn preferred_range(ranges: usize) -> usize {
    thread_number() % ranges
}

struct ScopedWorkPtr(*const TeamWork<'static>);

// SAFETY: a `TeamWork` is `Sync` (checked below): it consists of shared references to `Sync` types.
unsafe impl Send for ScopedWorkPtr {}
unsafe impl Sync for ScopedWorkPtr {}

const fn shared_between_threads<T: Sync>() {}
const _: () = shared_between_threads::<TeamWork<'static>>();

/// For models, with this number of helpers.
#[cfg(all(test, any(shuttle, loom)))]
pub(crate) fn shared(chunks: usize, helpers: usize, work: &(dyn Fn(usize) + Sync)) {
    run_team(chunks, helpers, helpers + 1, TeamWork { work, observer: None });
}

pub(super) fn run_team(chunks: usize, helpers: usize, threads: usize, job: TeamWork<'_>) {
    let team = Arc::new(Team {
        chunks,
        threads,
        ranges: (0..=helpers).map(|range| AtomicUsize::new(range_start(range, helpers + 1, chunks))).collect(),
        claimed: AtomicUsize::new(0),
        end: AtomicUsize::new(chunks),
        latch: AtomicUsize::new(0),
        job: ScopedWorkPtr((&raw const job).cast()),
        caller: current(),
        panic: Mutex::new(None),
        parent: CURRENT_TEAM.try_with(|current| current.borrow().clone()).ok().flatten(),
        children: Mutex::new(SmallVec::new()),
        child_count: AtomicUsize::new(0),
    });
    // Waits for the helpers on every path out of here, before `job` is dropped.
    let mut guard = TeamGuard { team: &team, observer: job.observer, announced: false };
    if let Some(parent) = &team.parent {
        parent.add_child(&team);
    }
    guard.announce(helpers);
    for _ in 0..guard.idle_threads().min(helpers) {
        let team = team.clone();
        if !offer(move || team.help(|| true)) {
            break;
        }
    }
    team.work(team.claim_range(), job.work, || {
        guard.announce(helpers);
        true
    });
    drop(guard);
    let panic = team.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((_, payload)) = panic {
        resume_unwind(payload);
    }
}

impl Team {
    /// Takes chunks, starting with range `own`, while there are any and `may` returns true.
    fn work(self: &Arc<Self>, own: usize, work: &(dyn Fn(usize) + Sync), mut may: impl FnMut() -> bool) {
        let _restore = RestoreTeam(set_current_team(Some(self.clone())));
        for range in (own..own + self.ranges.len()).map(|range| range % self.ranges.len()) {
            let last = range_start(range + 1, self.ranges.len(), self.chunks);
            while may() {
                let chunk = self.ranges[range].fetch_add(1, Ordering::Relaxed);
                if chunk >= last.min(self.end.load(Ordering::Relaxed)) {
                    break;
                }
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(chunk))) {
                    // The chunks before this one will still run.
                    self.end.fetch_min(chunk, Ordering::Relaxed);
                    let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                    let discarded = match &*first {
                        Some((other, _)) if *other < chunk => Some((chunk, payload)),
                        _ => first.replace((chunk, payload)),
                    };
                    drop(first);
                    // Must not unwind: this may be a pool thread, and the caller waits until it
                    // leaves.
                    if let Some((_, payload)) = discarded {
                        drop_payload(payload);
                    }
                }
            }
        }
    }

    /// Whether there is a chunk that is not taken.
    pub fn has_more(&self) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        let range = |range: usize| range_start(range + 1, self.ranges.len(), self.chunks).min(end);
        (0..self.ranges.len()).any(|at| self.ranges[at].load(Ordering::Relaxed) < range(at))
    }

    /// Whether there is work for another thread when `working` threads work for the observer.
    pub fn takes_one_more(&self, working: usize) -> bool {
        working < self.threads && self.has_more()
    }

    /// Helps with this region while `may_stay` returns true. Called by a job of the injector, or by
    /// a thread to which the observer has announced the region.
    pub fn help(self: &Arc<Self>, may_stay: impl Fn() -> bool) {
        self.help_while(&may_stay);
        // A child region may have been added since this thread last looked, and may count on this
        // helper.
        if let Some(inner) = self.open_descendant() {
            inner.help_while(&may_stay);
        }
    }

    fn help_while(self: &Arc<Self>, may_stay: &dyn Fn() -> bool) {
        self.help_with(|own, TeamWork { work, observer }| match observer {
            None => self.work_then_help_children(own, *work, may_stay),
            // The gauge counts this thread, which leaves when there are too many.
            Some(observer) => observer.width().join(self.threads, |width| {
                let may = || may_stay() && width.working() <= self.threads;
                observer.enter_helper(&mut || self.work_then_help_children(own, *work, &may));
            }),
        });
    }

    /// Takes chunks of this region, and then of its child regions.
    fn work_then_help_children(self: &Arc<Self>, own: usize, work: &(dyn Fn(usize) + Sync), may: &dyn Fn() -> bool) {
        self.work(own, work, may);
        while may() && self.open_descendant().is_some_and(|inner| inner.help_uncounted(may)) {}
    }

    /// Helps as a thread that already counts as working, in the parent region. Returns whether it
    /// entered.
    fn help_uncounted(self: &Arc<Self>, may: &dyn Fn() -> bool) -> bool {
        self.help_with(|own, TeamWork { work, observer }| match observer {
            None => self.work(own, *work, may),
            Some(observer) => observer.enter_helper(&mut || self.work(own, *work, may)),
        })
    }

    fn help_with(&self, help: impl FnOnce(usize, &TeamWork<'_>)) -> bool {
        if !self.enter() {
            return false;
        }
        // SAFETY: the caller does not return while a helper is inside, and this thread is inside
        // from `enter` to `leave`.
        let job = unsafe { &*self.job.0 };
        let helped = catch_unwind(AssertUnwindSafe(|| help(self.claim_range(), job)));
        self.leave();
        // Chunks do not unwind, but a recorder (a user's `tracing` subscriber, for instance) may.
        // This may be a pool thread, or a caller with helpers inside.
        if let Err(payload) = helped {
            drop_payload(payload);
        }
        true
    }

    /// The range that this thread starts with: its preferred one, unless another thread has started
    /// with that.
    fn claim_range(&self) -> usize {
        let ranges = self.ranges.len();
        let own = preferred_range(ranges);
        let is_free = |&range: &usize| {
            let bit = 1_usize.unbounded_shl(range as u32);
            self.claimed.fetch_or(bit, Ordering::Relaxed) & bit == 0
        };
        (own..own + ranges).map(|range| range % ranges).find(is_free).unwrap_or(own)
    }

    fn children(&self) -> MutexGuard<'_, SmallVec<[Arc<Team>; 2]>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a child region. The callers of this region and of its ancestors may be waiting for it,
    /// and are unparked to help.
    fn add_child(self: &Arc<Self>, inner: &Arc<Team>) {
        let mut children = self.children();
        children.push(inner.clone());
        // SeqCst: the store must precede the reads of `latch` in `idle_threads`. A helper that
        // leaves reads `child_count` after its update of `latch`.
        self.child_count.store(children.len(), Ordering::SeqCst);
        drop(children);
        self.with_ancestors().for_each(|team| team.caller.unpark());
    }

    fn remove_child(&self, inner: &Arc<Team>) {
        let mut children = self.children();
        children.retain(|other| !Arc::ptr_eq(other, inner));
        self.child_count.store(children.len(), Ordering::Relaxed);
    }

    /// This region and its ancestors.
    fn with_ancestors(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Team>> {
        std::iter::successors(Some(self), |team| team.parent.as_ref())
    }

    /// A descendant region with a chunk that is not taken.
    fn open_descendant(&self) -> Option<Arc<Team>> {
        if self.child_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.children()
            .iter()
            .find_map(|inner| if inner.has_more() { Some(inner.clone()) } else { inner.open_descendant() })
    }

    fn enter(&self) -> bool {
        if !self.has_more() {
            return false;
        }
        let open = |latch: usize| (latch & CLOSED == 0).then_some(latch + HELPER);
        // Acquire: keeps the accesses of `help` after this operation. The job itself was published
        // with the ticket.
        self.latch.fetch_update(Ordering::Acquire, Ordering::Relaxed, open).is_ok()
    }

    fn leave(&self) {
        // SeqCst: releases the effects of this thread to the caller, and orders with `add_child`.
        if self.latch.fetch_sub(HELPER, Ordering::SeqCst) == HELPER | CLOSED {
            self.caller.unpark();
        }
    }
}

/// Keeps the data alive that a region has borrowed. Dropping it closes the region and waits until
/// no helper is inside.
struct TeamGuard<'a> {
    team: &'a Arc<Team>,
    observer: Option<&'a dyn RegionObserver>,
    /// Whether the observer has announced the region.
    announced: bool,
}

impl TeamGuard<'_> {
    /// The number of threads that may be idle: all but those that will find this region anyway,
    /// because they are inside the parent region or work on the queue of the observer.
    fn idle_threads(&self) -> usize {
        let busy = match (&self.team.parent, self.observer.filter(|_| self.announced)) {
            (Some(parent), _) => 1 + parent.latch.load(Ordering::SeqCst) / HELPER,
            (None, Some(observer)) => observer.width().at_queue(),
            (None, None) => 1,
        };
        self.team.threads.saturating_sub(busy)
    }

    /// Has the region announced, unless it is, or the observer would have to wait.
    fn announce(&mut self, wanted: usize) {
        if let Some(observer) = self.observer.filter(|_| !self.announced) {
            self.announced = observer.announce(self.team, wanted);
        }
    }
}

impl Drop for TeamGuard<'_> {
    fn drop(&mut self) {
        if let Some(observer) = self.observer.filter(|_| self.announced) {
            observer.retire(self.team);
        }
        let latch = &self.team.latch;
        latch.fetch_or(CLOSED, Ordering::Acquire);
        let is_empty = || latch.load(Ordering::Acquire) == CLOSED;
        let mut since = None;
        while !is_empty() {
            if self.team.open_descendant().is_some_and(|inner| inner.help_uncounted(&|| true)) {
                since = None;
            } else if !since.get_or_insert_with(Deadline::new).lasts(IDLE_TIMEOUT) {
                park();
            } else {
                round(is_empty);
            }
        }
        // Must stay there until here: a thread that waits for the parent finds descendants
        // through it.
        if let Some(parent) = &self.team.parent {
            parent.remove_child(self.team);
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::fork_join::for_each;
    use rayon::{ThreadPool, ThreadPoolBuilder};
    use std::sync::Barrier;

    /// Two threads with an odd and an even index.
    fn two_threads() -> ThreadPool {
        std::iter::repeat_with(|| ThreadPoolBuilder::new().num_threads(2).build().expect("threads"))
            .find(|pool| {
                let numbers = pool.broadcast(|_| thread_number());
                numbers[0] % 2 != numbers[1] % 2
            })
            .expect("there is always another pool")
    }

    /// The thread that ran each chunk, when both threads of the pool take part.
    fn chunk_owners(pool: &ThreadPool, caller: usize) -> Vec<usize> {
        let owners: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(usize::MAX)).collect();
        let both = Barrier::new(2);
        pool.broadcast(|context| {
            if context.index() == caller {
                for_each(4, 1e6, |chunk| {
                    owners[chunk].store(rayon::current_thread_index().expect("a worker"), Ordering::Relaxed);
                    both.wait();
                });
            }
        });
        owners.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn chunk_ranges_are_stable_across_callers() {
        let pool = two_threads();
        let first = chunk_owners(&pool, 0);
        assert_eq!(first[0], first[1]);
        assert_ne!(first[0], first[2]);
        for round in 0..50 {
            assert_eq!(chunk_owners(&pool, round % 2), first);
        }
    }
}
