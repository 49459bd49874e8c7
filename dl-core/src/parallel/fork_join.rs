//! Fork-join parallelism within one kernel.
//!
//! A large kernel divides its work into chunks, by the shape of its operands and never by the
//! number of threads, so that its result does not depend on that number. The calling thread works
//! through the chunks, and idle threads help.
//!
//! ```
//! let mut squares = vec![0_u64; 10_000];
//! let mut blocks: Vec<&mut [u64]> = squares.chunks_mut(1_000).collect();
//! dl_core::parallel::for_each_mut(&mut blocks, 1_000.0, |block, numbers| {
//!     for (i, number) in numbers.iter_mut().enumerate() {
//!         *number = ((1_000 * block + i) as u64).pow(2);
//!     }
//! });
//! assert_eq!(squares[9_999], 9_999 * 9_999);
//! ```
//!
//! The caller never waits for a thread to become free, so a call cannot deadlock, regardless of the
//! locks that the caller holds. The caller takes chunks until none is left and runs nothing else
//! meanwhile. Then it waits only for the chunks that helpers are running at that moment. If one of
//! these is itself divided (a child region), the caller helps with that. Helpers are only *offered*
//! the work, through the injector of the rayon pool and through the state of the pass. A helper
//! that arrives too late finds the region closed and returns.
//!
//! Each thread starts with a contiguous range of chunks of its own and then takes chunks from the
//! ranges of other threads. The assignment of ranges depends on thread indices and not on the
//! caller. Work that is divided in the same way repeatedly, such as the weights in each step,
//! therefore mostly stays in the caches of the same processors.

use crate::error::drop_payload;
use crate::exec::{Help, Pass, Visit, at_work, computing, with_computing};
use crate::graph::variable::thread_number;
use crate::parallel::injector::{AWAKE, offer};
use crate::parallel::sync::{
    AtomicUsize, Mutex, MutexGuard, Ordering, Patience, Thread, current, current_num_threads, park, spin_loop, spins,
    thread_local, yield_now,
};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

/// The minimum of work per thread. Waking a thread costs a few microseconds.
const WORTH_A_THREAD_NANOSECONDS: f64 = 10_000.0;

/// Calls `work` once for each of `pieces` chunks. `nanoseconds_each` is the estimated time of a
/// chunk; if all chunks together take less than about 20 µs, they run on the calling thread. The
/// number of threads at work, including the caller, is at most the size of the rayon pool, unless a
/// thread from outside the pool divides a chunk.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let sum = AtomicUsize::new(0);
/// dl_core::parallel::for_each(100, 1_000.0, |piece| {
///     sum.fetch_add(piece, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
///
/// # Panics
/// If a chunk panics, with the payload of the first such chunk. No chunk is running by then, and
/// later chunks may have been skipped.
pub fn for_each(pieces: usize, nanoseconds_each: f64, work: impl Fn(usize) + Sync) {
    match workers(pieces, nanoseconds_each) {
        (0 | 1, _) => (0..pieces).for_each(work),
        (workers, threads) => {
            with_computing(|pass| share(pieces, workers - 1, threads, Job { work: &work, pass, help: Help::here() }))
        }
    }
}

/// Whether [`for_each`] would offer these chunks to other threads. If not, a caller can avoid
/// separate buffers for the result of each chunk. The result must be the same.
///
/// ```
/// use dl_core::parallel;
/// assert!(!parallel::is_divided(100, 10.0), "a microsecond is not worth it");
/// ```
pub fn is_divided(pieces: usize, nanoseconds_each: f64) -> bool {
    workers(pieces, nanoseconds_each).0 > 1
}

/// The number of threads to use for these chunks, and the size of the pool if that number is more
/// than 1.
fn workers(pieces: usize, nanoseconds_each: f64) -> (usize, usize) {
    let nanoseconds = pieces as f64 * nanoseconds_each;
    if pieces < 2 || !is_worth_while(nanoseconds) {
        return (1, 1);
    }
    let threads = current_num_threads();
    (threads.min(pieces).min((nanoseconds / WORTH_A_THREAD_NANOSECONDS) as usize), threads)
}

/// Whether this much work is worth a second thread.
#[inline]
pub(crate) fn is_worth_while(nanoseconds: f64) -> bool {
    nanoseconds >= 2.0 * WORTH_A_THREAD_NANOSECONDS
}

/// [`for_each`] over the elements of a slice, with exclusive access to each.
///
/// ```
/// let mut words = ["one".to_owned(), "two".to_owned()];
/// dl_core::parallel::for_each_mut(&mut words, 10_000.0, |number, word| word.insert_str(0, ["1 ", "2 "][number]));
/// assert_eq!(words, ["1 one", "2 two"]);
/// ```
///
/// # Panics
/// If a chunk panics: see [`for_each`].
pub fn for_each_mut<T: Send>(pieces: &mut [T], nanoseconds_each: f64, work: impl Fn(usize, &mut T) + Sync) {
    struct Pieces<T>(*mut T);

    impl<T> Pieces<T> {
        fn at(&self, index: usize) -> *mut T {
            self.0.wrapping_add(index)
        }
    }

    // SAFETY: used only to access each element from one thread at a time, and `T` is `Send`.
    unsafe impl<T: Send> Sync for Pieces<T> {}

    let (len, pieces) = (pieces.len(), Pieces(pieces.as_mut_ptr()));
    for_each(len, nanoseconds_each, |index| {
        // SAFETY: `for_each` passes each index below `len` once, so the access is exclusive. The
        // slice is borrowed until `for_each` returns, and no chunk is running by then.
        work(index, unsafe { &mut *pieces.at(index) });
    });
}

/// The work of a region and the pass that it belongs to.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    pass: Option<&'a Arc<Pass>>,
    help: Help,
}

/// A parallel region: the chunks and the state of the threads that work on them.
pub(crate) struct Crew {
    pieces: usize,
    /// The maximum number of threads at work in the pass.
    threads: usize,
    /// For each range, the next chunk that is not taken.
    shares: SmallVec<[AtomicUsize; 4]>,
    /// One bit per range that a thread has started with.
    begun: AtomicUsize,
    /// Chunks from this index on are not started. Lowered by a panic.
    end: AtomicUsize,
    /// Twice the number of helpers inside, plus [`CLOSED`] once no helper may enter.
    door: AtomicUsize,
    /// Borrowed from the caller until the region is closed and no helper is inside.
    job: Lent,
    caller: Thread,
    /// The first chunk that panicked, with its payload.
    panic: Mutex<Option<(usize, Box<dyn Any + Send>)>>,
    /// The parent region, if this one divides a chunk of it.
    around: Option<Arc<Crew>>,
    /// The child regions, which divide chunks of this one, and their number.
    within: Mutex<SmallVec<[Arc<Crew>; 2]>>,
    divided: AtomicUsize,
}

thread_local! {
    /// The region of the chunk that this thread is running.
    static AROUND: RefCell<Option<Arc<Crew>>> = const { RefCell::new(None) };
}

/// Runs `work`, which is unrelated to the chunk that this thread may be running.
pub(crate) fn apart<R>(work: impl FnOnce() -> R) -> R {
    let _around = Restore(set_around(None));
    work()
}

/// Restores the current region of this thread.
struct Restore(Option<Arc<Crew>>);

impl Drop for Restore {
    fn drop(&mut self) {
        drop(set_around(self.0.take()));
    }
}

/// Returns the previous region, or `None` while the thread's locals are being destroyed.
fn set_around(crew: Option<Arc<Crew>>) -> Option<Arc<Crew>> {
    AROUND.try_with(|around| around.replace(crew)).ok().flatten()
}

const CLOSED: usize = 1;
const HELPER: usize = 2;

/// The first chunk of a range.
fn begin(share: usize, shares: usize, pieces: usize) -> usize {
    share * (pieces / shares) + share.min(pieces % shares)
}

/// The preferred range of this thread.
fn share_of_this_thread(shares: usize) -> usize {
    thread_number() % shares
}

/// The first chunk that this thread would take.
pub(crate) fn first_of_this_thread(pieces: usize, nanoseconds_each: f64) -> usize {
    match workers(pieces, nanoseconds_each).0 {
        0 | 1 => 0,
        workers => begin(share_of_this_thread(workers), workers, pieces),
    }
}

struct Lent(*const Job<'static>);

// SAFETY: a `Job` is `Sync` (checked below): it consists of shared references to `Sync` types.
unsafe impl Send for Lent {}
unsafe impl Sync for Lent {}

const fn shared_between_threads<T: Sync>() {}
const _: () = shared_between_threads::<Job<'static>>();

/// How often the caller polls for the end of the last chunks before it yields the processor. It
/// parks after [`AWAKE`]. A chunk usually takes less, but may take twice as long on a shared
/// processor, and waking a thread on a sleeping processor takes tens of microseconds.
const GLANCES: usize = spins(50);

/// For models, with this number of helpers.
#[cfg(all(test, any(shuttle, loom)))]
pub(crate) fn shared(pieces: usize, helpers: usize, work: &(dyn Fn(usize) + Sync)) {
    share(pieces, helpers, helpers + 1, Job { work, pass: None, help: Help::here() });
}

fn share(pieces: usize, helpers: usize, threads: usize, job: Job<'_>) {
    let crew = Arc::new(Crew {
        pieces,
        threads,
        shares: (0..=helpers).map(|share| AtomicUsize::new(begin(share, helpers + 1, pieces))).collect(),
        begun: AtomicUsize::new(0),
        end: AtomicUsize::new(pieces),
        door: AtomicUsize::new(0),
        job: Lent((&raw const job).cast()),
        caller: current(),
        panic: Mutex::new(None),
        around: AROUND.try_with(|around| around.borrow().clone()).ok().flatten(),
        within: Mutex::new(SmallVec::new()),
        divided: AtomicUsize::new(0),
    });
    // Waits for the helpers on every path out of here, before `job` is dropped.
    let mut inside = Inside { crew: &crew, pass: job.pass, known: false };
    if let Some(around) = &crew.around {
        around.add(&crew);
    }
    inside.tell(helpers);
    for _ in 0..inside.idle().min(helpers) {
        let crew = crew.clone();
        if !offer(move || crew.help(None, || true)) {
            break;
        }
    }
    crew.work(crew.own_share(), job.work, || {
        inside.tell(helpers);
        true
    });
    drop(inside);
    let panic = crew.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((_, payload)) = panic {
        resume_unwind(payload);
    }
}

impl Crew {
    /// Takes chunks, starting with range `own`, while there are any and `may` returns true.
    fn work(self: &Arc<Self>, own: usize, work: &(dyn Fn(usize) + Sync), mut may: impl FnMut() -> bool) {
        let _around = Restore(set_around(Some(self.clone())));
        for share in (own..own + self.shares.len()).map(|share| share % self.shares.len()) {
            let last = begin(share + 1, self.shares.len(), self.pieces);
            while may() {
                let piece = self.shares[share].fetch_add(1, Ordering::Relaxed);
                if piece >= last.min(self.end.load(Ordering::Relaxed)) {
                    break;
                }
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(piece))) {
                    // The chunks before this one will still run.
                    self.end.fetch_min(piece, Ordering::Relaxed);
                    let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                    let untold = match &*first {
                        Some((other, _)) if *other < piece => Some((piece, payload)),
                        _ => first.replace((piece, payload)),
                    };
                    drop(first);
                    // Must not unwind: this may be a pool thread, and the caller waits until it
                    // leaves.
                    if let Some((_, payload)) = untold {
                        drop_payload(payload);
                    }
                }
            }
        }
    }

    /// Whether there is a chunk that is not taken.
    pub(crate) fn has_more(&self) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        let share = |share: usize| begin(share + 1, self.shares.len(), self.pieces).min(end);
        (0..self.shares.len()).any(|at| self.shares[at].load(Ordering::Relaxed) < share(at))
    }

    /// Whether there is work for another thread when `working` threads work for the pass.
    pub(crate) fn takes_one_more(&self, working: usize) -> bool {
        working < self.threads && self.has_more()
    }

    /// Helps with this region while `stays` returns true. Called by a job of the injector, or by a
    /// worker that found the region in the state of the pass.
    pub(crate) fn help(self: &Arc<Self>, helper: Option<&Visit<'_>>, stays: impl Fn() -> bool) {
        self.help_as_long_as(helper, &stays);
        // A child region may have been added since this thread last looked, and may count on this
        // helper.
        if let Some(inner) = self.open_within() {
            inner.help_as_long_as(helper, &stays);
        }
    }

    fn help_as_long_as(self: &Arc<Self>, helper: Option<&Visit<'_>>, stays: &dyn Fn() -> bool) {
        self.help_with(helper, |own, Job { work, pass, help }| match pass {
            None => self.work_and_go_on(own, *work, stays),
            // The pass counts this thread, which leaves when there are too many.
            Some(pass) => pass.width().join(self.threads, |width| {
                let may = || stays() && width.working() <= self.threads;
                computing(pass, || pass.helping(help, || self.work_and_go_on(own, *work, &may)));
            }),
        });
    }

    /// Takes chunks of this region, and then of its child regions.
    fn work_and_go_on(self: &Arc<Self>, own: usize, work: &(dyn Fn(usize) + Sync), may: &dyn Fn() -> bool) {
        self.work(own, work, may);
        while may() && self.open_within().is_some_and(|inner| inner.help_from_outside(may)) {}
    }

    /// Helps as a thread that already counts as working, in the parent region. Returns whether it
    /// entered.
    fn help_from_outside(self: &Arc<Self>, may: &dyn Fn() -> bool) -> bool {
        self.help_with(None, |own, Job { work, pass, help }| match pass {
            None => self.work(own, *work, may),
            Some(pass) => computing(pass, || pass.helping(help, || self.work(own, *work, may))),
        })
    }

    fn help_with(&self, helper: Option<&Visit<'_>>, help: impl FnOnce(usize, &Job<'_>)) -> bool {
        if !self.come_in() {
            return false;
        }
        // SAFETY: the caller does not return while a helper is inside, and this thread is inside
        // from `come_in` to `go`.
        let job = unsafe { &*self.job.0 };
        let helped = catch_unwind(AssertUnwindSafe(|| at_work(helper, || help(self.own_share(), job))));
        self.go();
        // Chunks do not unwind, but a recorder (a user's `tracing` subscriber, for instance) may.
        // This may be a pool thread, or a caller with helpers inside.
        if let Err(payload) = helped {
            drop_payload(payload);
        }
        true
    }

    /// The range that this thread starts with: its preferred one, unless another thread has started
    /// with that.
    fn own_share(&self) -> usize {
        let shares = self.shares.len();
        let own = share_of_this_thread(shares);
        let is_free = |&share: &usize| {
            let bit = 1_usize.unbounded_shl(share as u32);
            self.begun.fetch_or(bit, Ordering::Relaxed) & bit == 0
        };
        (own..own + shares).map(|share| share % shares).find(is_free).unwrap_or(own)
    }

    fn within(&self) -> MutexGuard<'_, SmallVec<[Arc<Crew>; 2]>> {
        self.within.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a child region. The callers of this region and of its ancestors may be waiting for it,
    /// and are unparked to help.
    fn add(self: &Arc<Self>, inner: &Arc<Crew>) {
        let mut within = self.within();
        within.push(inner.clone());
        // SeqCst: the store must precede the reads of `door` in `idle`. A helper that leaves reads
        // `divided` after its update of `door`.
        self.divided.store(within.len(), Ordering::SeqCst);
        drop(within);
        self.outwards().for_each(|crew| crew.caller.unpark());
    }

    fn remove(&self, inner: &Arc<Crew>) {
        let mut within = self.within();
        within.retain(|other| !Arc::ptr_eq(other, inner));
        self.divided.store(within.len(), Ordering::Relaxed);
    }

    /// This region and its ancestors.
    fn outwards(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Crew>> {
        std::iter::successors(Some(self), |crew| crew.around.as_ref())
    }

    /// A descendant region with a chunk that is not taken.
    fn open_within(&self) -> Option<Arc<Crew>> {
        if self.divided.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.within().iter().find_map(|inner| if inner.has_more() { Some(inner.clone()) } else { inner.open_within() })
    }

    fn come_in(&self) -> bool {
        if !self.has_more() {
            return false;
        }
        let open = |door: usize| (door & CLOSED == 0).then_some(door + HELPER);
        // Acquire: keeps the accesses of `help` after this operation. The job itself was published
        // with the ticket.
        self.door.fetch_update(Ordering::Acquire, Ordering::Relaxed, open).is_ok()
    }

    fn go(&self) {
        // SeqCst: releases the effects of this thread to the caller, and orders with `add`.
        if self.door.fetch_sub(HELPER, Ordering::SeqCst) == HELPER | CLOSED {
            self.caller.unpark();
        }
    }
}

/// Keeps the data alive that a region has borrowed. Dropping it closes the region and waits until
/// no helper is inside.
struct Inside<'a> {
    crew: &'a Arc<Crew>,
    pass: Option<&'a Arc<Pass>>,
    /// Whether the region is registered in the state of the pass.
    known: bool,
}

impl Inside<'_> {
    /// The number of threads that may be idle: all but those that will find this region anyway,
    /// because they are inside the parent region or work on the queue of the pass.
    fn idle(&self) -> usize {
        let busy = match (&self.crew.around, self.pass.filter(|_| self.known)) {
            (Some(around), _) => 1 + around.door.load(Ordering::SeqCst) / HELPER,
            (None, Some(pass)) => pass.width().at_queue(),
            (None, None) => 1,
        };
        self.crew.threads.saturating_sub(busy)
    }

    /// Registers the region in the pass, unless it is registered or the state lock is contended.
    fn tell(&mut self, wanted: usize) {
        if let Some(pass) = self.pass.filter(|_| !self.known) {
            self.known = pass.tell_of(self.crew, wanted);
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.filter(|_| self.known) {
            pass.forget(self.crew);
        }
        let door = &self.crew.door;
        door.fetch_or(CLOSED, Ordering::Acquire);
        let is_left = || door.load(Ordering::Acquire) == CLOSED;
        let is_left_in_a_moment = || {
            (0..GLANCES).any(|_| {
                spin_loop();
                is_left()
            })
        };
        let mut since = None;
        while !is_left() {
            if self.crew.open_within().is_some_and(|inner| inner.help_from_outside(&|| true)) {
                since = None;
            } else if !since.get_or_insert_with(Patience::new).lasts(AWAKE) {
                park();
            } else if !is_left_in_a_moment() {
                // There may be more threads than processors.
                yield_now();
            }
        }
        // Must stay registered until here: a thread that waits for the parent finds descendants
        // through it.
        if let Some(around) = &self.crew.around {
            around.remove(self.crew);
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
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
    fn owners(pool: &ThreadPool, caller: usize) -> Vec<usize> {
        let owners: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(usize::MAX)).collect();
        let both = Barrier::new(2);
        pool.broadcast(|context| {
            if context.index() == caller {
                for_each(4, 1e6, |piece| {
                    owners[piece].store(rayon::current_thread_index().expect("a worker"), Ordering::Relaxed);
                    both.wait();
                });
            }
        });
        owners.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn a_share_belongs_to_a_thread_whoever_calls() {
        let pool = two_threads();
        let first = owners(&pool, 0);
        assert_eq!(first[0], first[1]);
        assert_ne!(first[0], first[2]);
        for round in 0..50 {
            assert_eq!(owners(&pool, round % 2), first);
        }
    }
}
