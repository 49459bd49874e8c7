//! Offers of work to the pool: jobs that nobody need take.
//!
//! A worker that waits for a pass works for that pass, and parks; jobs of the pool it leaves alone. While all workers do that, as in `configs.par_iter().map(train)`, nobody so much as looks at
//! a job, so there must not be one for every kernel that could be divided.

use crate::sync::{current_num_threads, spawn, thread_local};
use std::cell::OnceCell;
use std::sync::Arc;
// only a count, on which nothing depends: a model need not look at it
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

thread_local! {
    /// How many offers of this thread nobody has looked at.
    static WAITING: OnceCell<Arc<AtomicUsize>> = const { OnceCell::new() };
}

/// So many for each thread of the pool are enough for those that are idle.
const ENOUGH: usize = 4;

/// Has a thread of the pool do this when it is idle, unless there are offers enough. Says whether.
pub(crate) fn offer(work: impl FnOnce() + Send + 'static) -> bool {
    let Ok(waiting) = WAITING.try_with(|waiting| waiting.get_or_init(Arc::default).clone()) else { return false };
    if waiting.load(Relaxed) >= ENOUGH * current_num_threads() {
        return false;
    }
    waiting.fetch_add(1, Relaxed);
    spawn(move || {
        waiting.fetch_sub(1, Relaxed);
        work();
    });
    true
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

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
}
