//! Random graphs on 1 to 8 threads, against a sequential reference interpreter: values and
//! gradients are equal to the last bit, failures are the right ones, weights change in whole steps,
//! everything is released exactly once, and nothing hangs.
//!
//! `cargo test --test stress` takes a sample. The long run, of seeds 0 to 99,999:
//!
//! ```sh
//! DL_STRESS_GRAPHS=100000 cargo test --release --test stress -- --nocapture
//! ```
//!
//! A graph that fails is named by its seed; `DL_STRESS_SEED=17 cargo test --release --test stress`
//! tests that graph a hundred times (or `DL_STRESS_GRAPHS` times), because much depends on how its
//! threads are scheduled.

mod backward;
mod build;
mod expected;
mod foreign;
mod found;
mod graph;
mod kernels;
mod ledger;
mod nodes;
mod numbers;
mod random;
mod reference;
mod rules;
mod run;
mod statistics;
mod typed;
mod watchdog;

use std::time::Instant;

/// How many graphs are tested when nobody says otherwise.
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

/// Panics that belong to the test need no backtrace.
fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(|message| message.starts_with("planned ")) {
            usual(info);
        }
    }));
}
