//! Clocks.

use std::time::Instant;

/// How thoroughly is measured.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Repeats, whose median counts.
    pub repeats: usize,
    /// How long the warm-up, and then each repeat, takes.
    pub seconds: f64,
}

impl Pace {
    pub const THOROUGH: Pace = Pace { repeats: 5, seconds: 0.3 };
    /// To see that everything runs, not how fast.
    pub const QUICK: Pace = Pace { repeats: 1, seconds: 0.01 };

    /// Warms up, at least three calls; then the median of the repeats. No clock is read between two
    /// calls.
    pub fn seconds_per_call(self, mut f: impl FnMut()) -> f64 {
        let (start, mut warm) = (Instant::now(), 0);
        while warm < 3 || start.elapsed().as_secs_f64() < self.seconds {
            f();
            warm += 1;
        }
        let two = seconds(2, &mut f);
        let calls = (2.0 * self.seconds / two.max(1e-9)).clamp(1.0, 1e9) as usize;
        let mut repeats: Vec<f64> = (0..self.repeats).map(|_| seconds(calls, &mut f) / calls as f64).collect();
        median(&mut repeats)
    }

    /// Times single calls: their median, and what 99 of 100 stay below.
    pub fn latencies(self, mut f: impl FnMut()) -> [f64; 2] {
        let mut times = Vec::new();
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < self.seconds {
            f();
        }
        let (start, all) = (Instant::now(), self.seconds * self.repeats as f64);
        while times.len() < 200 || start.elapsed().as_secs_f64() < all {
            times.push(seconds(1, &mut f));
        }
        [median(&mut times), times[times.len() * 99 / 100]]
    }
}

fn seconds(calls: usize, f: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        f();
    }
    start.elapsed().as_secs_f64()
}

/// The median; sorts.
fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
