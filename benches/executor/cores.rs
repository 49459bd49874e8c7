//! The round-trip time of a cache line between two cores.
//!
//! A thread pays it to read data that another thread has written. It depends on whether the two
//! cores share a cache, which on a shared machine changes from minute to minute. Check it before
//! you compare figures of two threads.

use crate::report::{Figure, Goal, Report};
use crate::timing::{Clock, Seen};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

const ROUND_TRIPS: usize = 20_000;

pub(crate) fn measure(clock: &Clock, report: &mut Report) {
    report.section("Two cores");
    let rounds: Vec<[f64; 1]> = (0..clock.rounds).map(|_| [round_trip()]).collect();
    report.figure(Figure {
        workload: "cores",
        variant: "round trip",
        threads: 2,
        text: "round trip of a cache line between two cores",
        seen: Seen::of(&rounds, |[seconds]| seconds * 1e9),
        unit: "ns",
        goal: Goal::None,
        also: String::new(),
    });
}

/// The time of a round trip in seconds, of two threads that spin on one word.
fn round_trip() -> f64 {
    let turn = AtomicUsize::new(0);
    let wait_for = |number: usize| {
        while turn.load(Ordering::Acquire) != number {
            spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..ROUND_TRIPS {
                wait_for(2 * number + 1);
                turn.store(2 * number + 2, Ordering::Release);
            }
        });
        let start = Instant::now();
        for number in 0..ROUND_TRIPS {
            turn.store(2 * number + 1, Ordering::Release);
            wait_for(2 * number + 2);
        }
        start.elapsed().as_secs_f64() / ROUND_TRIPS as f64
    })
}
