//! Models: small programs that a model checker runs many times, each time with another interleaving
//! of the threads.
//!
//! `just model` runs them. Under `shuttle` schedules are drawn at random: uniformly, and by PCT
//! (Burckhardt et al. 2010), which finds a bug that needs few preemptions with a known probability.
//! Under `loom` a model runs in every interleaving with a bounded number of preemptions, and with
//! every value that an atomic load may return.
//!
//! Besides its assertions a model fails if all threads wait (a deadlock), if they do not terminate,
//! or if an object with a [`Guarded`](crate::sync::Guarded) field is used after it was freed, is
//! freed twice, or is never freed.
//!
//! ```text
//! just model                              # about half a minute
//! MODEL_SCHEDULES=5000 just model         # more schedules
//! LOOM_MAX_PREEMPTIONS=3 just model       # more interleavings
//! SHUTTLE_RANDOM_SEED=2 just model        # others
//! ```
//!
//! Limits of the checkers: `std::sync::Arc` is not instrumented. `shuttle` is sequentially
//! consistent, so an ordering that is too weak can only be found by `loom`.

#[cfg(test)]
mod fork_join;

use crate::sync::checker::thread;
use crate::sync::guarded_things;

/// Runs a model with random schedules.
#[cfg(shuttle)]
pub fn explore(model: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, MaxSteps, Runner};

    let schedules = std::env::var("MODEL_SCHEDULES").map_or(200, |number| number.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    let model = std::sync::Arc::new(without_leaks(model));
    let again = model.clone();
    // `SHUTTLE_RANDOM_SEED` sets another seed
    Runner::new(RandomScheduler::new_from_seed(1, schedules), config.clone()).run(move || again());
    Runner::new(PctScheduler::new_from_seed(1, 3, schedules), config).run(move || model());
}

/// Runs a model in every interleaving.
#[cfg(loom)]
pub fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.max_branches = 10_000;
    // Finds every bug that was planted to test the models. Without a bound the largest models take
    // minutes.
    checker.preemption_bound = checker.preemption_bound.or(Some(2));
    checker.check(without_leaks(model));
}

fn without_leaks(model: impl Fn() + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    move || {
        model();
        eventually(|| guarded_things() == 0);
    }
}

/// Waits for a condition. Workers of the pool may hold their data for a moment after a pass has
/// ended; the checker detects if the condition never holds.
pub fn eventually(done: impl Fn() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

/// A part of a model, which runs in a thread of its own.
pub type Part = Box<dyn FnOnce() + Send>;

/// Runs each part in a thread, and joins all threads.
pub fn together(parts: impl IntoIterator<Item = Part>) {
    let threads: Vec<_> = parts.into_iter().map(thread::spawn).collect();
    for thread in threads {
        thread.join().expect("no part of a model panics");
    }
}
