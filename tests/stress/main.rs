//! Random graphs on 1 to 8 threads against a sequential reference interpreter: values and gradients
//! are bit-identical, the errors are the same, steps are atomic, every value is released exactly
//! once, and no pass hangs.
//!
//! `cargo test --test stress` tests a sample. The long run tests seeds 0 to 99,999:
//!
//! ```sh
//! DL_STRESS_GRAPHS=100000 cargo test --release --test stress -- --nocapture
//! ```
//!
//! A failure reports the seed of its graph. `DL_STRESS_SEED=17 cargo test --release --test stress`
//! tests that graph a hundred times (or `DL_STRESS_GRAPHS` times), because failures may depend on
//! the schedule of the threads.

mod backward;
mod build;
mod expected;
mod foreign;
mod graph;
mod kernels;
mod ledger;
mod nodes;
mod numbers;
mod random;
mod reference;
mod regressions;
mod rules;
mod run;
mod statistics;
mod typed;
mod watchdog;

use std::time::Instant;

/// The default number of graphs.
const SAMPLE: u64 = 800;

#[test]
fn random_graphs() {
    // the reference is recursive
    let test = std::thread::Builder::new().stack_size(1 << 29).spawn(stress).expect("a thread");
    if let Err(panic) = test.join() {
        std::panic::resume_unwind(panic);
    }
}

fn stress() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let graphs = number("DL_STRESS_GRAPHS");
    let seeds: Vec<u64> = match number("DL_STRESS_SEED") {
        Some(seed) => vec![seed; graphs.unwrap_or(100) as usize],
        None => (0..graphs.unwrap_or(SAMPLE)).collect(),
    };
    silence_planned_panics();
    let (pools, statistics, watchdog) = (run::pools(), statistics::Statistics::default(), watchdog::Watchdog::start());
    let start = Instant::now();
    for (tested, seed) in seeds.into_iter().enumerate() {
        if let Err(wrong) = watchdog.watch(seed, || run::check(seed, &pools, &statistics)) {
            panic!("{wrong}\n{}", watchdog::again(seed));
        }
        if tested % 10_000 == 9_999 {
            println!("{} graphs in {:.0?}", tested + 1, start.elapsed());
        }
    }
    println!("{:.1?}", start.elapsed());
    statistics.report();
}

/// Suppresses the messages of injected panics.
fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(|message| message.starts_with("planned ")) {
            usual(info);
        }
    }));
}
