//! Offers of work to the pool: jobs that nobody need take.
//!
//! A worker that waits for a pass works for that pass, and parks; jobs of the pool it leaves alone.
//! While all workers do that, as in `configs.par_iter().map(train)`, nobody so much as looks at a
//! job, so there must not be one for every kernel that could be divided.
//!
//! An offer lies on the *desk* of the thread that makes it. Idle threads of the pool learn of it by
//! a *bell*, a job that takes the next offer from the desk. To wake a thread takes longer than many
//! a kernel, so who has taken an offer stays awake for a moment, and looks at that desk: for him no
//! bell is rung, and he has the next offer in a few hundred nanoseconds. So in a training that goes
//! on step after step a helper is mostly awake. Who stays awake does nothing else, as the pool may
//! have had him take the offer while he waited for something of his own: so he goes back to the
//! pool after [`AWAKE`] without an offer, or later where offers have lately come at longer
//! intervals, as from steps in which one thread does much by itself: to wake him for each of them
//! would cost that thread tens of microseconds. After [`LONGEST`] he goes in any case; then the
//! jobs of others have their turn, and he comes back.

use crate::parallel::sync::{
    AtomicBool, Mutex, MutexGuard, Ordering, Patience, current_num_threads, give_way, spawn, spin_loop, spins,
    thread_local, yield_now,
};
use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Where a thread lays what it offers.
#[derive(Default)]
struct Desk {
    /// Whether something lies here: so that one can look without the lock.
    any: AtomicBool,
    offers: Mutex<Offers>,
}

#[derive(Default)]
struct Offers {
    waiting: VecDeque<Job>,
    /// How many threads look here at the moment.
    awake: usize,
    /// How many bells have been rung that nobody has heard.
    bells: usize,
    rhythm: Rhythm,
}

/// At which intervals offers come.
#[derive(Default)]
struct Rhythm {
    last: Option<Instant>,
    /// The longest interval of late that was longer than [`AWAKE`], unless one has been longer than
    /// [`LONGEST`] since. Each that is longer than [`AWAKE`] makes it a little shorter.
    longest: Option<Duration>,
}

impl Rhythm {
    /// An offer comes at this moment.
    fn beats(&mut self, now: Instant) {
        let interval = self.last.replace(now).map_or(Duration::MAX, |last| now.duration_since(last));
        if interval > AWAKE {
            let remembered = self.longest.map(|longest| longest * 7 / 8);
            self.longest = remembered.max(Some(interval)).filter(|_| interval <= LONGEST);
        }
    }

    /// How long it is worth to wait for the next one.
    fn patience(&self) -> Duration {
        self.longest.map_or(AWAKE, |longest| LONGEST.min(2 * longest))
    }
}

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static DESK: OnceCell<Arc<Desk>> = const { OnceCell::new() };
}

thread_local! {
    /// Whether this thread stays awake, whatever it does at the moment.
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// So many for each thread of the pool are enough for those that are idle.
const ENOUGH: usize = 4;
/// A little more than the parts of a small training step take that nobody shares.
pub(crate) const AWAKE: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(1);
/// How often one looks at a desk before one lets another thread have the processor: for about a
/// microsecond.
const GLANCES: usize = spins(50);
/// How often that, before one looks at the clock.
const LOOKS: usize = spins(4);

/// Has a thread of the pool do this when it is idle, unless there are offers enough. Says whether.
pub(crate) fn offer(work: impl FnOnce() + Send + 'static) -> bool {
    DESK.try_with(|desk| desk.get_or_init(Arc::default).lay(work)).unwrap_or(false)
}

impl Desk {
    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether it lies here now.
    fn lay(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) -> bool {
        let now = Instant::now();
        let mut offers = self.offers();
        if offers.waiting.len() >= ENOUGH * current_num_threads() {
            return false;
        }
        offers.waiting.push_back(Box::new(work));
        offers.rhythm.beats(now);
        self.any.store(true, Ordering::Relaxed);
        self.ring(offers);
        true
    }

    /// Calls a thread of the pool for what nobody who is awake is going to take.
    fn ring(self: &Arc<Self>, mut offers: MutexGuard<'_, Offers>) {
        if offers.waiting.len() <= offers.awake + offers.bells {
            return;
        }
        offers.bells += 1;
        drop(offers);
        let desk = self.clone();
        spawn(move || {
            let mut offers = desk.offers();
            offers.bells -= 1;
            if let Some(job) = desk.take(offers) {
                job();
            }
            desk.stay(false);
        });
    }

    fn take(&self, mut offers: MutexGuard<'_, Offers>) -> Option<Job> {
        let job = offers.waiting.pop_front();
        self.any.store(!offers.waiting.is_empty(), Ordering::Relaxed);
        job
    }

    /// This thread has heard of what was offered here, and stays for more; or it comes back, after
    /// the jobs of others have had their turn.
    fn stay(self: &Arc<Self>, comes_back: bool) {
        struct Stays;

        impl Drop for Stays {
            fn drop(&mut self) {
                STAYS.set(false);
            }
        }

        let is_own = DESK.try_with(|desk| desk.get().is_some_and(|desk| Arc::ptr_eq(desk, self))).unwrap_or(true);
        if is_own || STAYS.replace(true) {
            return self.ring(self.offers());
        }
        let _stays = Stays;
        // not for ever, should one job call for the next: something may wait for this thread to
        // come back
        let turn = Patience::new();
        while comes_back && turn.lasts(LONGEST) && give_way() {}
        let (all, mut since) = (Patience::new(), Patience::new());
        let patience = || self.offers().rhythm.patience();
        while since.lasts(patience()) {
            if !all.lasts(LONGEST) {
                let desk = self.clone();
                return spawn(move || desk.stay(true));
            }
            if let Some(job) = self.look() {
                job();
                since = Patience::new();
            }
        }
        // what was laid here while this thread was awake
        self.ring(self.offers());
    }

    /// Looks for a moment whether something lies here.
    fn look(&self) -> Option<Job> {
        self.offers().awake += 1;
        'looks: for _ in 0..LOOKS {
            for _ in 0..GLANCES {
                if self.any.load(Ordering::Relaxed) {
                    break 'looks;
                }
                spin_loop();
            }
            // there may be more threads than processors
            yield_now();
        }
        let mut offers = self.offers();
        offers.awake -= 1;
        self.take(offers)
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn offers_do_not_pile_up_while_everybody_is_busy() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be had");
        let taken = Arc::<AtomicUsize>::default();
        let offers = |many: usize| {
            (0..many)
                .filter(|_| {
                    let taken = taken.clone();
                    offer(move || {
                        taken.fetch_add(1, Relaxed);
                    })
                })
                .count()
        };
        assert_eq!(pool.install(|| offers(1_000)), ENOUGH, "the only worker is busy with offering");
        while taken.load(Relaxed) < ENOUGH {
            pool.install(|| ()); // between two jobs it has time to look
        }
        assert_eq!(pool.install(|| offers(1)), 1);
    }

    #[test]
    fn patience_is_that_of_the_rhythm() {
        let (mut rhythm, mut now) = (Rhythm::default(), Instant::now());
        let mut after = |microseconds| {
            now += Duration::from_micros(microseconds);
            rhythm.beats(now);
            rhythm.patience().as_micros()
        };
        assert_eq!(
            [0, 50, 300, 20, 90].map(&mut after),
            [100, 100, 600, 600, 600],
            "short intervals are those within a step"
        );
        assert_eq!([120, 400, 120].map(&mut after), [525, 800, 700], "steps have several");
        assert_eq!([900, 2_000, 30].map(&mut after), [1_000, 100, 100]);
    }

    /// For those who are awake no bell is rung; what they leave is for the pool.
    #[test]
    fn nobody_is_called_for_what_those_take_who_are_awake() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be had");
        pool.install(|| {
            let desk = Arc::<Desk>::default();
            let done = Arc::<AtomicUsize>::default();
            desk.offers().awake = 1;
            for bells in [0, 1, 2] {
                let count = done.clone();
                assert!(desk.lay(move || {
                    count.fetch_add(1, Relaxed);
                }));
                assert_eq!(desk.offers().bells, bells, "only one is awake");
            }
            desk.look().expect("it lies there")();
            assert_eq!((done.load(Relaxed), desk.offers().awake), (1, 1));
        });
    }

    /// However many offers there are, a job of somebody else's has its turn.
    #[test]
    fn who_stays_keeps_nobody_waiting() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads can be had");
        pool.install(|| {
            let (taken, done) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
            let begun = std::time::Instant::now();
            while !done.load(Relaxed) {
                assert!(begun.elapsed() < Duration::from_secs(60), "it waits behind offers");
                let count = taken.clone();
                offer(move || {
                    count.fetch_add(1, Relaxed);
                });
                if taken.load(Relaxed) == 1_000 {
                    let told = done.clone();
                    rayon::spawn(move || told.store(true, Relaxed));
                    while taken.load(Relaxed) == 1_000 {
                        offer(|| ());
                        let count = taken.clone();
                        offer(move || {
                            count.fetch_add(1, Relaxed);
                        });
                    }
                }
            }
        });
    }

    /// It is not one job each time he goes.
    #[test]
    fn who_comes_back_has_given_way_to_all() {
        const JOBS: usize = 100;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads can be had");
        pool.install(|| {
            let (taken, ran) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<usize>>>::default());
            let mut spawned = false;
            while ran.lock().expect("no panic").len() < JOBS {
                let count = taken.clone();
                offer(move || {
                    count.fetch_add(1, Relaxed);
                });
                // somebody stays
                if taken.load(Relaxed) > 1_000 && !std::mem::replace(&mut spawned, true) {
                    for _ in 0..JOBS {
                        let (taken, ran) = (taken.clone(), ran.clone());
                        rayon::spawn(move || ran.lock().expect("no panic").push(taken.load(Relaxed)));
                    }
                }
            }
            let mut turns = ran.lock().expect("no panic").clone();
            turns.dedup();
            assert!(turns.len() < JOBS / 4, "{turns:?}");
        });
    }

    /// Whatever calls for its own kind again, until something has been done that waits for this
    /// thread.
    #[test]
    fn who_gives_way_comes_back() {
        fn again(is_done: Arc<AtomicBool>, begun: Instant) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it waits for ever");
            if !is_done.load(Relaxed) {
                rayon::spawn(move || again(is_done, begun));
            }
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be had");
        pool.install(|| {
            let is_done = Arc::<AtomicBool>::default();
            again(is_done.clone(), Instant::now());
            Arc::<Desk>::default().stay(true);
            is_done.store(true, Relaxed);
        });
    }

    /// A thread that has taken an offer takes the next one, without having slept meanwhile.
    #[test]
    fn who_has_helped_stays_for_more() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads can be had");
        pool.install(|| {
            let staying = || DESK.with(|desk| desk.get().is_some_and(|desk| desk.offers().awake > 0));
            let (done, laid) = (Arc::<AtomicUsize>::default(), Cell::new(0));
            for offered in 1..=1_000 {
                laid.set(laid.get() + usize::from(staying()));
                let done_too = done.clone();
                assert!(offer(move || {
                    done_too.fetch_add(1, Relaxed);
                }));
                while done.load(Relaxed) < offered {
                    std::thread::yield_now();
                }
            }
            assert!(laid.get() > 0, "nobody stayed");
        });
    }
}
