//! Models: small programs that a checker runs again and again, each time with another interleaving
//! of their threads.
//!
//! `just model` runs them. Under `shuttle` a model is the whole executor with a pool of its own,
//! and schedules are drawn at random: uniformly and by PCT (Burckhardt et al. 2010), which finds a
//! bug that needs few preemptions with a known probability. Under `loom` only counts, leaves,
//! claims, commits and shared kernels are modelled, but in every interleaving of so many
//! preemptions, and with every value that an atomic load may see.
//!
//! Besides its own assertions a model fails if all threads wait (a deadlock), if they run on for
//! ever, if a node or a variable is used after it was freed, is freed twice, or is never freed.
//!
//! ```text
//! just model                              # about half a minute
//! MODEL_SCHEDULES=5000 just model         # more schedules
//! LOOM_MAX_PREEMPTIONS=3 just model       # more interleavings
//! SHUTTLE_RANDOM_SEED=2 just model        # others
//! ```
//!
//! What a checker does not see: `std::sync::Arc` is the real one; `shuttle` knows one order of all
//! that happens, so an ordering that is too weak is for `loom` to find; and `loom` lets an acquire
//! fence see what an earlier thread in the order has read relaxed, so the `AcqRel` of
//! [`make_strict`](crate::graph::node) rests on an argument alone.

#[cfg(shuttle)]
mod checkpoints;
mod claims;
mod counts;
mod leaves;
mod parallel;
#[cfg(shuttle)]
mod passes;
#[cfg(shuttle)]
mod small;
mod snapshots;
#[cfg(shuttle)]
mod steps;
#[cfg_attr(loom, allow(dead_code, reason = "kernels are for passes"))]
mod tracked;
#[cfg(shuttle)]
mod wakes;

use crate::parallel::sync::checker::thread;
use crate::parallel::sync::guarded_things;

/// Runs a model, again and again.
#[cfg(shuttle)]
fn explore(model: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, MaxSteps, Runner};

    let schedules = std::env::var("MODEL_SCHEDULES").map_or(200, |number| number.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    let model = std::sync::Arc::new(nothing_is_left(model));
    let again = model.clone();
    // `SHUTTLE_RANDOM_SEED` sets another seed
    Runner::new(RandomScheduler::new_from_seed(1, schedules), config.clone()).run(move || again());
    Runner::new(PctScheduler::new_from_seed(1, 3, schedules), config).run(move || model());
}

/// Runs a model in every way.
#[cfg(loom)]
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.max_branches = 10_000;
    // enough for every bug that was put in to try the models; without a bound the largest ones take
    // minutes
    checker.preemption_bound = checker.preemption_bound.or(Some(2));
    checker.check(nothing_is_left(model));
}

fn nothing_is_left(model: impl Fn() + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    move || {
        model();
        eventually(|| guarded_things() == 0);
    }
}

/// Workers of the pool may outlive what they worked for by a moment. The checker knows when it has
/// been too long.
fn eventually(done: impl Fn() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

type Part = Box<dyn FnOnce() + Send>;

/// Runs these in threads of their own, and waits for them.
fn together(parts: impl IntoIterator<Item = Part>) {
    let threads: Vec<_> = parts.into_iter().map(thread::spawn).collect();
    for thread in threads {
        thread.join().expect("no part of a model panics");
    }
}
