//! How long a line of the cache takes from one core to another and back.
//!
//! That is what a second thread pays when it looks at what the first one has written. It depends on
//! where the two cores are: with a cache in common or not, which on a shared machine changes from
//! minute to minute. Whoever compares figures of two threads looks here first.

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
        text: "a line of the cache to the other core and back",
        seen: Seen::of(&rounds, |[seconds]| seconds * 1e9),
        unit: "ns",
        goal: Goal::None,
        also: String::new(),
    });
}

/// In seconds, of two threads that wait for each other in a loop.
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
