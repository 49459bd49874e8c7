//! Time measurement.

use std::time::Instant;

/// The number and length of measurements.
#[derive(Clone, Copy)]
pub struct Pace {
    /// The number of repeats, over which the median is taken.
    pub repeats: usize,
    /// The duration of the warm-up and of each repeat.
    pub seconds: f64,
}

impl Pace {
    pub const THOROUGH: Pace = Pace { repeats: 5, seconds: 0.3 };
    /// Short measurements, for a smoke test.
    pub const QUICK: Pace = Pace { repeats: 1, seconds: 0.01 };

    /// The median time of a call over the repeats, after a warm-up of at least three calls. The
    /// clock is not read between calls.
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

    /// Times single calls: the median and the 99th percentile.
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

/// The median. Sorts the values.
fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
