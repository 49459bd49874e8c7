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
//!
//! A polling worker does nothing else, although the pool may have started the wake-up job while the
//! worker was waiting for a job of its own. So it returns to the pool after the [idle
//! timeout](IdleTimeout), which is longer if offers have recently come at longer intervals (as from
//! steps with a long sequential part), because waking it for each offer would cost the offering
//! thread tens of microseconds. In any case it returns after [`MAX_IDLE_TIMEOUT`], lets other jobs
//! run, and is then started again by a job of its own.

use crate::backoff::{IdleTimeout, round};
use crate::sync::{
    AtomicBool, Deadline, Mutex, MutexGuard, Ordering, current_num_threads, give_way, spawn, thread_local,
};
use crate::thresholds::{JOBS_PER_THREAD, MAX_IDLE_TIMEOUT, ROUNDS};
use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// The offers of one thread.
#[derive(Default)]
struct Injector {
    /// Whether there is an offer. Read without the lock.
    has_jobs: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The number of threads that are polling.
    pollers: usize,
    /// The number of wake-up jobs that are spawned and not started.
    wake_ups: usize,
    idle_timeout: IdleTimeout,
}

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static INJECTOR: OnceCell<Arc<Injector>> = const { OnceCell::new() };
}

thread_local! {
    /// Whether this thread is polling a queue, even while it runs a job from it.
    static POLLING: Cell<bool> = const { Cell::new(false) };
}

/// Offers a job to an idle thread of the pool. Returns `false`, and drops the job, if enough offers
/// are waiting.
pub fn offer(work: impl FnOnce() + Send + 'static) -> bool {
    INJECTOR.try_with(|injector| injector.get_or_init(Arc::default).push(work)).unwrap_or(false)
}

impl Injector {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the offer was accepted.
    fn push(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) -> bool {
        let now = Instant::now();
        let mut queue = self.lock();
        if queue.jobs.len() >= JOBS_PER_THREAD * current_num_threads() {
            return false;
        }
        queue.jobs.push_back(Box::new(work));
        queue.idle_timeout.record_arrival(now);
        self.has_jobs.store(true, Ordering::Relaxed);
        self.wake_one(queue);
        true
    }

    /// Spawns a wake-up job if there are more offers than polling threads and wake-up jobs.
    fn wake_one(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        if queue.jobs.len() <= queue.pollers + queue.wake_ups {
            return;
        }
        queue.wake_ups += 1;
        drop(queue);
        let injector = self.clone();
        spawn(move || {
            let mut queue = injector.lock();
            queue.wake_ups -= 1;
            if let Some(job) = injector.pop(queue) {
                job();
            }
            injector.poll(false);
        });
    }

    fn pop(&self, mut queue: MutexGuard<'_, Queue>) -> Option<Job> {
        let job = queue.jobs.pop_front();
        self.has_jobs.store(!queue.jobs.is_empty(), Ordering::Relaxed);
        job
    }

    /// Polls this queue for further offers. With `resumed`, lets other jobs of the pool run
    /// first.
    fn poll(self: &Arc<Self>, resumed: bool) {
        struct ResetPolling;

        impl Drop for ResetPolling {
            fn drop(&mut self) {
                POLLING.set(false);
            }
        }

        let is_own = INJECTOR
            .try_with(|injector| injector.get().is_some_and(|injector| Arc::ptr_eq(injector, self)))
            .unwrap_or(true);
        if is_own || POLLING.replace(true) {
            return self.wake_one(self.lock());
        }
        let _reset = ResetPolling;
        // Bounded, since jobs may spawn each other endlessly, and another job may be waiting for
        // this thread.
        let turn = Deadline::new();
        while resumed && turn.lasts(MAX_IDLE_TIMEOUT) && give_way() {}
        let (all, mut since) = (Deadline::new(), Deadline::new());
        let idle_timeout = || self.lock().idle_timeout.get();
        while since.lasts(idle_timeout()) {
            if !all.lasts(MAX_IDLE_TIMEOUT) {
                let injector = self.clone();
                return spawn(move || injector.poll(true));
            }
            if let Some(job) = self.poll_briefly() {
                job();
                since = Deadline::new();
            }
        }
        // For offers pushed while this thread was polling.
        self.wake_one(self.lock());
    }

    /// Polls for a short time.
    fn poll_briefly(&self) -> Option<Job> {
        self.lock().pollers += 1;
        (0..ROUNDS).any(|_| round(|| self.has_jobs.load(Ordering::Relaxed)));
        let mut queue = self.lock();
        queue.pollers -= 1;
        self.pop(queue)
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    #[test]
    fn injector_rejects_offers_above_limit() {
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
        assert_eq!(pool.install(|| offers(1_000)), JOBS_PER_THREAD, "the only worker is busy with offering");
        while taken.load(Relaxed) < JOBS_PER_THREAD {
            pool.install(|| ()); // lets the worker poll between two jobs
        }
        assert_eq!(pool.install(|| offers(1)), 1);
    }

    /// Offers that polling threads will take spawn no wake-up job; further offers do.
    #[test]
    fn wake_up_jobs_are_spawned_only_beyond_pollers() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be had");
        pool.install(|| {
            let injector = Arc::<Injector>::default();
            let done = Arc::<AtomicUsize>::default();
            injector.lock().pollers = 1;
            for wake_ups in [0, 1, 2] {
                let count = done.clone();
                assert!(injector.push(move || {
                    count.fetch_add(1, Relaxed);
                }));
                assert_eq!(injector.lock().wake_ups, wake_ups, "there is one poller");
            }
            injector.poll_briefly().expect("a job was pushed")();
            assert_eq!((done.load(Relaxed), injector.lock().pollers), (1, 1));
        });
    }

    /// Continuous offers do not starve other jobs of the pool.
    #[test]
    fn continuous_offers_do_not_starve_other_jobs() {
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
                    let flag = done.clone();
                    rayon::spawn(move || flag.store(true, Relaxed));
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
    fn resumed_poller_runs_several_other_jobs_first() {
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
    fn poller_returns_despite_respawning_jobs() {
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
            Arc::<Injector>::default().poll(true);
            is_done.store(true, Relaxed);
        });
    }

    /// A worker that has taken an offer is polling when the next one comes.
    #[test]
    fn worker_polls_after_taking_an_offer() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads can be had");
        pool.install(|| {
            let is_polled =
                || INJECTOR.with(|injector| injector.get().is_some_and(|injector| injector.lock().pollers > 0));
            let (done, polled) = (Arc::<AtomicUsize>::default(), Cell::new(0));
            for offered in 1..=1_000 {
                polled.set(polled.get() + usize::from(is_polled()));
                let done_count = done.clone();
                assert!(offer(move || {
                    done_count.fetch_add(1, Relaxed);
                }));
                while done.load(Relaxed) < offered {
                    std::thread::yield_now();
                }
            }
            assert!(polled.get() > 0, "no worker polled");
        });
    }
}
