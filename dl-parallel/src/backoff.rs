//! How a thread waits for what another thread is about to do: it spins, then yields the processor
//! between rounds of polls, and at the [idle timeout](IDLE_TIMEOUT) it parks or gives up.
//!
//! Waking a parked thread takes 5 to 50 µs, longer than most of what is waited for. The durations
//! are in `thresholds.rs`.

use crate::sync::{Deadline, spin_loop, yield_now};
use crate::thresholds::{IDLE_TIMEOUT, MAX_IDLE_TIMEOUT, SPINS};
use std::time::{Duration, Instant};

/// Polls at most so often. Returns whether it was ready.
#[inline]
pub fn spin(polls: usize, mut is_ready: impl FnMut() -> bool) -> bool {
    (0..polls).any(|_| {
        let ready = is_ready();
        if !ready {
            spin_loop();
        }
        ready
    })
}

/// A round of polls, and a yield of the processor if it was not ready.
#[inline]
pub fn round(is_ready: impl FnMut() -> bool) -> bool {
    let ready = spin(SPINS, is_ready);
    if !ready {
        yield_now();
    }
    ready
}

/// Rounds of polls, until the [idle timeout](IDLE_TIMEOUT). Returns whether it was ready.
pub fn wait(is_ready: impl FnMut() -> bool) -> bool {
    wait_in_rounds(SPINS, is_ready)
}

/// [`wait`] for another thread of a rank, which may need this processor: it is yielded after each
/// poll. (`dl-dist/benches/ranks.rs`.)
pub fn wait_for_thread(is_ready: impl FnMut() -> bool) -> bool {
    wait_in_rounds(1, is_ready)
}

#[cold]
fn wait_in_rounds(polls: usize, mut is_ready: impl FnMut() -> bool) -> bool {
    let since = Deadline::new();
    loop {
        if spin(polls, &mut is_ready) {
            return true;
        }
        yield_now();
        if !since.lasts(IDLE_TIMEOUT) {
            return false;
        }
    }
}

/// The idle timeout of a worker, adapted to the intervals between the events that it waits for.
#[derive(Default)]
pub struct IdleTimeout {
    last: Option<Instant>,
    /// The longest recent interval above [`IDLE_TIMEOUT`], reset by one above [`MAX_IDLE_TIMEOUT`].
    /// It decays with each interval above [`IDLE_TIMEOUT`].
    longest: Option<Duration>,
}

impl IdleTimeout {
    /// Records an event at this time.
    pub fn record_arrival(&mut self, now: Instant) {
        let interval = self.last.replace(now).map_or(Duration::MAX, |last| now.duration_since(last));
        if interval > IDLE_TIMEOUT {
            let remembered = self.longest.map(|longest| longest * 7 / 8);
            self.longest = remembered.max(Some(interval)).filter(|_| interval <= MAX_IDLE_TIMEOUT);
        }
    }

    /// Twice the longest recent interval, within the limits.
    pub fn get(&self) -> Duration {
        self.longest.map_or(IDLE_TIMEOUT, |longest| MAX_IDLE_TIMEOUT.min(2 * longest))
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn idle_timeout_adapts_to_intervals() {
        let (mut timeout, mut now) = (IdleTimeout::default(), Instant::now());
        let mut after = |microseconds| {
            now += Duration::from_micros(microseconds);
            timeout.record_arrival(now);
            timeout.get().as_micros()
        };
        assert_eq!(
            [0, 50, 300, 20, 90].map(&mut after),
            [100, 100, 600, 600, 600],
            "short intervals are those within a step"
        );
        assert_eq!([120, 400, 120].map(&mut after), [525, 800, 700], "several intervals in a step");
        assert_eq!([900, 2_000, 30].map(&mut after), [1_000, 100, 100]);
    }

    #[test]
    fn wait_polls_until_ready_or_timeout() {
        let mut polls = 0;
        let mut ready_at = |poll: usize| {
            polls = 0;
            let ready = wait(|| {
                polls += 1;
                polls == poll
            });
            (ready, polls)
        };
        assert_eq!(ready_at(1), (true, 1));
        // a yield may take longer than the timeout, on a processor with much to do
        assert!((0..1_000).any(|_| ready_at(SPINS + 1) == (true, SPINS + 1)), "a second round follows");
        let begun = Instant::now();
        let (ready, polls) = ready_at(usize::MAX);
        assert!(!ready && polls >= SPINS && begun.elapsed() >= IDLE_TIMEOUT);
    }
}
