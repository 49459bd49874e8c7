//! The job injector: offers work to the rayon pool, without requiring that a worker takes it.
//!
//! A worker that waits for a pass works for that pass or parks; it does not run other jobs of the
//! pool. While all workers wait in this way, as in `configs.par_iter().map(train)`, no job is
//! started at all. So there must not be one job per kernel that could be divided.
//!
//! Each thread has a queue of offered jobs. An offer is pushed there and, unless an idle worker is
//! already polling this queue, a *wake-up job* is spawned on the pool, which takes the next offer.
//! Waking a thread takes longer than many kernels. A worker that has taken an offer therefore keeps
//! polling the same queue and gets the next offer in a few hundred nanoseconds, without a wake-up
//! job. In a training loop a helper mostly stays awake in this way.
//! // A polling worker does nothing else, although the pool may have started the wake-up job while
//! the worker was waiting for a job of its own. So it returns to the pool after the *idle timeout*:
//! [`AWAKE`], or longer if offers have recently come at longer intervals (as from steps with a long
//! sequential part), because waking it for each offer would cost the offering thread tens of
//! microseconds. In any case it returns after [`LONGEST`], lets other jobs run, and is then started
//! again by a job of its own.

use crate::parallel::sync::{
    AtomicBool, Mutex, MutexGuard, Ordering, Patience, current_num_threads, give_way, spawn, spin_loop, spins,
    thread_local, yield_now,
};
use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The offers of one thread.
#[derive(Default)]
struct Desk {
    /// Whether there is an offer. Read without the lock.
    any: AtomicBool,
    offers: Mutex<Offers>,
}

#[derive(Default)]
struct Offers {
    waiting: VecDeque<Job>,
    /// The number of threads that are polling.
    awake: usize,
    /// The number of wake-up jobs that are spawned and not started.
    bells: usize,
    rhythm: Rhythm,
}

/// The intervals between offers, from which the idle timeout is adapted.
#[derive(Default)]
struct Rhythm {
    last: Option<Instant>,
    /// The longest recent interval above [`AWAKE`], reset by one above [`LONGEST`]. It decays with
    /// each interval above [`AWAKE`].
    longest: Option<Duration>,
}

impl Rhythm {
    /// Records an offer at this time.
    fn beats(&mut self, now: Instant) {
        let interval = self.last.replace(now).map_or(Duration::MAX, |last| now.duration_since(last));
        if interval > AWAKE {
            let remembered = self.longest.map(|longest| longest * 7 / 8);
            self.longest = remembered.max(Some(interval)).filter(|_| interval <= LONGEST);
        }
    }

    /// The idle timeout.
    fn patience(&self) -> Duration {
        self.longest.map_or(AWAKE, |longest| LONGEST.min(2 * longest))
    }
}

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static DESK: OnceCell<Arc<Desk>> = const { OnceCell::new() };
}

thread_local! {
    /// Whether this thread is polling a queue, even while it runs a job from it.
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// The maximum number of waiting offers per pool thread.
const ENOUGH: usize = 4;
/// A little longer than the sequential parts of a small training step.
pub(crate) const AWAKE: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(1);
/// The number of polls between yields of the processor: about a microsecond.
const GLANCES: usize = spins(50);
/// The number of yields between reads of the clock.
const LOOKS: usize = spins(4);

/// Offers a job to an idle thread of the pool. Returns `false`, and drops the job, if enough offers
/// are waiting.
pub(crate) fn offer(work: impl FnOnce() + Send + 'static) -> bool {
    DESK.try_with(|desk| desk.get_or_init(Arc::default).lay(work)).unwrap_or(false)
}

impl Desk {
    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the offer was accepted.
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

    /// Spawns a wake-up job if there are more offers than polling threads and wake-up jobs.
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

    /// Polls this queue for further offers. With `comes_back`, lets other jobs of the pool run
    /// first.
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
        // Bounded, since jobs may spawn each other endlessly, and another job may be waiting for
        // this thread.
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
        // For offers pushed while this thread was polling.
        self.ring(self.offers());
    }

    /// Polls for a short time.
    fn look(&self) -> Option<Job> {
        self.offers().awake += 1;
        'looks: for _ in 0..LOOKS {
            for _ in 0..GLANCES {
                if self.any.load(Ordering::Relaxed) {
                    break 'looks;
                }
                spin_loop();
            }
            // There may be more threads than processors.
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
            pool.install(|| ()); // lets the worker poll between two jobs
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

    /// Offers that polling threads will take spawn no wake-up job; further offers do.
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

    /// Continuous offers do not starve other jobs of the pool.
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

    /// A worker lets several jobs run each time it returns to the pool, not just one.
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
                // A worker is polling.
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

    /// Jobs that respawn themselves until a flag is set, which the polling thread sets when it
    /// returns.
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

    /// A worker that has taken an offer is polling when the next one comes.
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
