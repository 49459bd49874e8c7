//! One kernel on several threads.
//!
//! A kernel that has much to do divides it into pieces, by the shape of its operands and never by
//! the number of threads, so that its result does not depend on that number. The thread that runs
//! the kernel works through the pieces; threads that are idle come and help.
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
//! Nobody waits for a thread to become free, so this cannot deadlock, whatever locks the caller
//! holds: the caller takes piece after piece until none is left, runs nothing else meanwhile, and
//! then waits for those pieces alone that helpers are running at that moment. Should one of these
//! be divided in its turn, he helps with that, which whoever runs it would else do while he waits.
//! Helpers are only *offered* the work, by tickets for the rayon pool and in the books of the pass.
//! Whoever comes too late finds the door closed, and goes.
//!
//! Each thread begins with a share of its own, of pieces side by side, and goes on with what is
//! left of the shares of others. Whose share is which mostly depends on the threads' numbers alone,
//! and not on who calls. So what is divided in the same way time and again, as the weights are in
//! each step, mostly stays in the caches of the same processors.

use crate::error::drop_payload;
use crate::node::thread_number;
use crate::offer::{AWAKE, offer};
use crate::pass::{Help, Pass, computing, with_computing};
use crate::sync::{
    AtomicUsize, Mutex, MutexGuard, Ordering, Patience, Thread, current, current_num_threads, park, spin_loop, spins,
    thread_local, yield_now,
};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

/// Waking another thread costs a few microseconds: there must be as much work as this for each.
const WORTH_A_THREAD_NANOSECONDS: f64 = 10_000.0;

/// Calls `work` for each of so many pieces, once. A piece takes about so many nanoseconds; if all
/// of them together take less than some 20 µs, they do not leave this thread. The threads that
/// work, this one included, are never more than those of the rayon pool, if no piece is divided
/// itself by someone from outside of the pool.
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
/// When a piece does, with the payload of the first such piece. By then no piece is running any
/// more; later pieces may have been left out.
pub fn for_each(pieces: usize, nanoseconds_each: f64, work: impl Fn(usize) + Sync) {
    match workers(pieces, nanoseconds_each) {
        (0 | 1, _) => (0..pieces).for_each(work),
        (workers, threads) => {
            with_computing(|pass| share(pieces, workers - 1, threads, Job { work: &work, pass, help: Help::here() }))
        }
    }
}

/// Whether [`for_each`] would offer such pieces to other threads. Who needs room of its own for the
/// result of each piece can do without, if not. What comes out must be the same.
///
/// ```
/// use dl_core::parallel;
/// assert!(!parallel::is_divided(100, 10.0), "a microsecond is not worth it");
/// ```
pub fn is_divided(pieces: usize, nanoseconds_each: f64) -> bool {
    workers(pieces, nanoseconds_each).0 > 1
}

/// How many threads are to work on such pieces, and how many the pool has if there is more than
/// one.
fn workers(pieces: usize, nanoseconds_each: f64) -> (usize, usize) {
    let nanoseconds = pieces as f64 * nanoseconds_each;
    if pieces < 2 || !is_worth_while(nanoseconds) {
        return (1, 1);
    }
    let threads = current_num_threads();
    (threads.min(pieces).min((nanoseconds / WORTH_A_THREAD_NANOSECONDS) as usize), threads)
}

/// Whether there is work for a second thread in so much.
#[inline]
pub(crate) fn is_worth_while(nanoseconds: f64) -> bool {
    nanoseconds >= 2.0 * WORTH_A_THREAD_NANOSECONDS
}

/// The same for pieces that are in a slice: `work` has each for itself.
///
/// ```
/// let mut words = ["one".to_owned(), "two".to_owned()];
/// dl_core::parallel::for_each_mut(&mut words, 10_000.0, |number, word| word.insert_str(0, ["1 ", "2 "][number]));
/// assert_eq!(words, ["1 one", "2 two"]);
/// ```
///
/// # Panics
/// When a piece does: see [`for_each`].
pub fn for_each_mut<T: Send>(pieces: &mut [T], nanoseconds_each: f64, work: impl Fn(usize, &mut T) + Sync) {
    struct Pieces<T>(*mut T);

    impl<T> Pieces<T> {
        fn at(&self, index: usize) -> *mut T {
            self.0.wrapping_add(index)
        }
    }

    // SAFETY: it is used to give each piece to one thread at a time, and pieces can be sent
    unsafe impl<T: Send> Sync for Pieces<T> {}

    let (len, pieces) = (pieces.len(), Pieces(pieces.as_mut_ptr()));
    for_each(len, nanoseconds_each, |index| {
        // SAFETY: `for_each` gives out each index below `len` once, so nobody else has this piece;
        // the slice is borrowed until all have come back
        work(index, unsafe { &mut *pieces.at(index) });
    });
}

/// What is to be done, and for whom.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    pass: Option<&'a Arc<Pass>>,
    help: Help,
}

/// The pieces, and who works on them.
pub(crate) struct Crew {
    pieces: usize,
    /// No more than so many work for the pass.
    threads: usize,
    /// For each thread that may come, the next piece of its share that nobody has taken.
    shares: SmallVec<[AtomicUsize; 4]>,
    /// A bit for each share that a thread has begun with.
    begun: AtomicUsize,
    /// Pieces from here on are not begun any more.
    end: AtomicUsize,
    /// Twice the number of helpers inside, and [`CLOSED`] when nobody may come in any more.
    door: AtomicUsize,
    /// Borrowed from the caller until the door is closed and nobody is inside.
    job: Lent,
    caller: Thread,
    /// The first piece that has panicked.
    panic: Mutex<Option<(usize, Box<dyn Any + Send>)>>,
    /// The one that this one is a piece of.
    around: Option<Arc<Crew>>,
    /// Those of pieces of this one that are being divided themselves, and how many they are.
    within: Mutex<SmallVec<[Arc<Crew>; 2]>>,
    divided: AtomicUsize,
}

thread_local! {
    /// The crew whose piece this thread is running.
    static AROUND: RefCell<Option<Arc<Crew>>> = const { RefCell::new(None) };
}

/// Does what has nothing to do with the piece that this thread may be running.
pub(crate) fn apart<R>(work: impl FnOnce() -> R) -> R {
    let _around = Restore(set_around(None));
    work()
}

/// Puts back which crew's piece this thread is running.
struct Restore(Option<Arc<Crew>>);

impl Drop for Restore {
    fn drop(&mut self) {
        drop(set_around(self.0.take()));
    }
}

/// Says which was there before; in a thread that is ending there is none.
fn set_around(crew: Option<Arc<Crew>>) -> Option<Arc<Crew>> {
    AROUND.try_with(|around| around.replace(crew)).ok().flatten()
}

const CLOSED: usize = 1;
const HELPER: usize = 2;

/// Where one of so many shares of the pieces begins.
fn begin(share: usize, shares: usize, pieces: usize) -> usize {
    share * (pieces / shares) + share.min(pieces % shares)
}

/// Which of so many shares is mostly this thread's.
fn share_of_this_thread(shares: usize) -> usize {
    thread_number() % shares
}

/// With which of so many pieces this thread begins, which take about so long each.
pub(crate) fn first_of_this_thread(pieces: usize, nanoseconds_each: f64) -> usize {
    match workers(pieces, nanoseconds_each).0 {
        0 | 1 => 0,
        workers => begin(share_of_this_thread(workers), workers, pieces),
    }
}

struct Lent(*const Job<'static>);

// SAFETY: a `Job` can be shared between threads: it consists of shared references to what can
unsafe impl Send for Lent {}
unsafe impl Sync for Lent {}

const fn shared_between_threads<T: Sync>() {}
const _: () = shared_between_threads::<Job<'static>>();

/// How often the caller looks whether the last pieces are done before it lets another thread have
/// the processor. It sleeps after [`AWAKE`]: a piece usually takes less, but a processor that
/// others use, too, may take twice as long; and to wake a thread whose processor has gone to sleep
/// takes tens of microseconds.
const GLANCES: usize = spins(50);

/// For models, with so many helpers.
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
    // on every way out of here, before `job` goes
    let mut inside = Inside { crew: &crew, pass: job.pass, known: false };
    if let Some(around) = &crew.around {
        around.add(&crew);
    }
    inside.tell(helpers);
    for _ in 0..inside.idle().min(helpers) {
        let crew = crew.clone();
        if !offer(move || crew.help(|| true)) {
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
    /// Takes pieces, from a share of its own on, as long as there are any and as long as it may.
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
                    // those before this one will be done
                    self.end.fetch_min(piece, Ordering::Relaxed);
                    let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                    let untold = match &*first {
                        Some((other, _)) if *other < piece => Some((piece, payload)),
                        _ => first.replace((piece, payload)),
                    };
                    drop(first);
                    // nothing may unwind from here: this may be a thread of the pool, and the
                    // caller waits until it goes
                    if let Some((_, payload)) = untold {
                        drop_payload(payload);
                    }
                }
            }
        }
    }

    /// Whether there is a piece that nobody has taken.
    pub(crate) fn has_more(&self) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        let share = |share: usize| begin(share + 1, self.shares.len(), self.pieces).min(end);
        (0..self.shares.len()).any(|at| self.shares[at].load(Ordering::Relaxed) < share(at))
    }

    /// Whether there is something to do for one more, when so many work for the pass.
    pub(crate) fn takes_one_more(&self, working: usize) -> bool {
        working < self.threads && self.has_more()
    }

    /// What a ticket does, or whoever finds it in the books of the pass, as long as he stays.
    pub(crate) fn help(self: &Arc<Self>, stays: impl Fn() -> bool) {
        self.help_as_long_as(&stays);
        // what has been divided since this thread looked last, by somebody who counted on it
        if let Some(inner) = self.open_within() {
            inner.help_as_long_as(&stays);
        }
    }

    fn help_as_long_as(self: &Arc<Self>, stays: &dyn Fn() -> bool) {
        self.help_with(|own, Job { work, pass, help }| match pass {
            None => self.work_and_go_on(own, *work, stays),
            // for the pass it is a thread more, and gives way when there are too many
            Some(pass) => pass.width().join(self.threads, |width| {
                let may = || stays() && width.working() <= self.threads;
                computing(pass, || pass.helping(help, || self.work_and_go_on(own, *work, &may)));
            }),
        });
    }

    /// Takes pieces of this one, and then of those within it.
    fn work_and_go_on(self: &Arc<Self>, own: usize, work: &(dyn Fn(usize) + Sync), may: &dyn Fn() -> bool) {
        self.work(own, work, may);
        while may() && self.open_within().is_some_and(|inner| inner.help_from_outside(may)) {}
    }

    /// The same for whoever is done with that of which this one is part, and is one of those who
    /// work already. Says whether he came in.
    fn help_from_outside(self: &Arc<Self>, may: &dyn Fn() -> bool) -> bool {
        self.help_with(|own, Job { work, pass, help }| match pass {
            None => self.work(own, *work, may),
            Some(pass) => computing(pass, || pass.helping(help, || self.work(own, *work, may))),
        })
    }

    fn help_with(&self, help: impl FnOnce(usize, &Job<'_>)) -> bool {
        if !self.come_in() {
            return false;
        }
        // SAFETY: the caller does not return while somebody is inside; from `come_in` to `go` this
        // thread is
        let job = unsafe { &*self.job.0 };
        let helped = catch_unwind(AssertUnwindSafe(|| help(self.own_share(), job)));
        self.go();
        // pieces do not unwind, but whoever watches them may, as a subscriber of the user's: this
        // may be a thread of the pool, or a caller with helpers inside
        if let Err(payload) = helped {
            drop_payload(payload);
        }
        true
    }

    /// The share that this thread is to begin with: its own, unless somebody has begun with that.
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

    /// A piece of this one is divided itself: the callers of this one, and of those around it, may
    /// be waiting for it.
    fn add(self: &Arc<Self>, inner: &Arc<Crew>) {
        let mut within = self.within();
        within.push(inner.clone());
        // before anybody counts who is at the doors: who goes out there looks at this afterwards
        self.divided.store(within.len(), Ordering::SeqCst);
        drop(within);
        self.outwards().for_each(|crew| crew.caller.unpark());
    }

    fn remove(&self, inner: &Arc<Crew>) {
        let mut within = self.within();
        within.retain(|other| !Arc::ptr_eq(other, inner));
        self.divided.store(within.len(), Ordering::Relaxed);
    }

    /// This one, the one that it is a piece of, and so on.
    fn outwards(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Crew>> {
        std::iter::successors(Some(self), |crew| crew.around.as_ref())
    }

    /// One of those within it, however deep, in which there is a piece that nobody has taken.
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
        // acquire: not for the job, which came with the ticket, but so that nothing of `help` moves
        // in front of it
        self.door.fetch_update(Ordering::Acquire, Ordering::Relaxed, open).is_ok()
    }

    fn go(&self) {
        // the caller sees what was done here; and see `add`
        if self.door.fetch_sub(HELPER, Ordering::SeqCst) == HELPER | CLOSED {
            self.caller.unpark();
        }
    }
}

/// What a crew has borrowed is in use. When this goes, the door is closed, and nobody is inside any
/// more.
struct Inside<'a> {
    crew: &'a Arc<Crew>,
    pass: Option<&'a Arc<Pass>>,
    /// Whether the pass knows of it.
    known: bool,
}

impl Inside<'_> {
    /// How many threads may have nothing to do: those that do not work on what will lead them here,
    /// as the crew around and the books of the pass do.
    fn idle(&self) -> usize {
        let busy = match (&self.crew.around, self.pass.filter(|_| self.known)) {
            (Some(around), _) => 1 + around.door.load(Ordering::SeqCst) / HELPER,
            (None, Some(pass)) => pass.width().at_queue(),
            (None, None) => 1,
        };
        self.crew.threads.saturating_sub(busy)
    }

    /// Tells the pass, unless it knows, or its books are not to be had at the moment.
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
                // there may be more threads than processors
                yield_now();
            }
        }
        // whoever waits for the one around finds those within this one up to here
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

    /// Two threads whose numbers are odd and even.
    fn two_threads() -> ThreadPool {
        std::iter::repeat_with(|| ThreadPoolBuilder::new().num_threads(2).build().expect("threads"))
            .find(|pool| {
                let numbers = pool.broadcast(|_| thread_number());
                numbers[0] % 2 != numbers[1] % 2
            })
            .expect("there is always another pool")
    }

    /// Which thread of the pool has which piece, when it divides them with the other.
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
