//! Offers of work to the pool: jobs that nobody need take.
//!
//! A worker that waits for a pass works for that pass, and parks; jobs of the pool it leaves alone. While all workers do that, as in `configs.par_iter().map(train)`, nobody so much as looks at
//! a job, so there must not be one for every kernel that could be divided.
//!
//! To wake a thread takes longer than many a kernel, so who has taken an offer stays awake for a moment, and looks at the *desk* of the thread that has made it: the next offer of that thread is
//! laid there, and taken from there, in a few hundred nanoseconds. So in a training that goes on step after step a helper is mostly awake. Who stays awake does nothing else, as the pool may have had him take the offer
//! while he waited for something of his own: so he goes back to the pool after [`AWAKE`] without an offer, and after [`LONGEST`] in any case.

use crate::sync::{
    AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, Patience, current_num_threads, spawn, spin_loop, spins,
    thread_local, yield_now,
};
use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Where a thread lays what it offers to those who stay awake for it.
#[derive(Default)]
struct Desk {
    /// How many offers nobody has looked at, wherever they are.
    waiting: AtomicUsize,
    /// Whether some of them lie here: so that one can look without the lock.
    any: AtomicBool,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    /// Never more than there are threads that look here.
    offered: VecDeque<Job>,
    awake: usize,
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
const AWAKE: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(1);
/// How often one looks at a desk before one lets another thread have the processor: for about a microsecond.
const GLANCES: usize = spins(50);
/// How often that, before one looks at the clock.
const LOOKS: usize = spins(4);

/// Has a thread of the pool do this when it is idle, unless there are offers enough. Says whether.
pub(crate) fn offer(work: impl FnOnce() + Send + 'static) -> bool {
    let Ok(desk) = DESK.try_with(|desk| desk.get_or_init(Arc::default).clone()) else { return false };
    if desk.waiting.load(Ordering::Relaxed) >= ENOUGH * current_num_threads() {
        return false;
    }
    desk.waiting.fetch_add(1, Ordering::Relaxed);
    let here = desk.clone();
    let job = move || {
        desk.waiting.fetch_sub(1, Ordering::Relaxed);
        work();
        desk.stay();
    };
    if let Err(job) = here.put(job) {
        spawn(job);
    }
    true
}

impl Desk {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays a job here, if there is somebody who is going to take it.
    fn put<F: FnOnce() + Send + 'static>(&self, job: F) -> Result<(), F> {
        let mut jobs = self.jobs();
        if jobs.offered.len() >= jobs.awake {
            return Err(job);
        }
        jobs.offered.push_back(Box::new(job));
        self.any.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// This thread has done what was offered here, and stays for more.
    fn stay(&self) {
        struct Stays;

        impl Drop for Stays {
            fn drop(&mut self) {
                STAYS.set(false);
            }
        }

        let is_own = DESK.try_with(|desk| desk.get().is_some_and(|desk| std::ptr::eq(&**desk, self))).unwrap_or(true);
        if is_own || STAYS.replace(true) {
            return;
        }
        let _stays = Stays;
        let (all, mut since) = (Patience::new(), Patience::new());
        while all.lasts(LONGEST) && since.lasts(AWAKE) {
            if let Some(job) = self.look() {
                job();
                since = Patience::new();
            }
        }
    }

    /// Looks for a moment whether something is laid here.
    fn look(&self) -> Option<Job> {
        self.jobs().awake += 1;
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
        // nothing is left behind that was laid here for this thread
        let mut jobs = self.jobs();
        jobs.awake -= 1;
        let job = jobs.offered.pop_front();
        self.any.store(!jobs.offered.is_empty(), Ordering::Relaxed);
        job
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
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

    /// What is laid on a desk is for somebody who looks there; else it goes to the pool.
    #[test]
    fn a_desk_has_no_more_than_those_who_look_take() {
        let desk = Desk::default();
        assert!(desk.put(|| ()).is_err(), "nobody looks");
        let done = Arc::<AtomicUsize>::default();
        desk.jobs().awake = 1;
        let count = done.clone();
        let job = move || {
            count.fetch_add(1, Relaxed);
        };
        assert!(desk.put(job.clone()).is_ok());
        assert!(desk.put(job).is_err(), "only one looks");
        desk.jobs().awake = 0;
        desk.look().expect("it lies there")();
        assert!(desk.look().is_none());
        assert_eq!((done.load(Relaxed), desk.jobs().awake), (1, 0));
    }

    /// A thread that has taken an offer takes the next one, without having slept meanwhile.
    #[test]
    fn who_has_helped_stays_for_more() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads can be had");
        pool.install(|| {
            let staying = || DESK.with(|desk| desk.get().is_some_and(|desk| desk.jobs().awake > 0));
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
