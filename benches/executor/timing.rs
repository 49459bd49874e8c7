//! Time measurements on pools of one and of two threads, in turns.

use rayon::ThreadPool;
use std::time::Instant;

/// The number and length of measurements, and the thread pools.
pub(crate) struct Clock {
    /// The number of rounds, over which medians are taken.
    pub(crate) rounds: usize,
    /// The duration of one measurement in seconds.
    pub(crate) slice: f64,
    pub(crate) one: ThreadPool,
    pub(crate) two: ThreadPool,
}

impl Clock {
    pub(crate) fn thorough() -> Self {
        Clock::new(25, 0.03)
    }

    pub(crate) fn quick() -> Self {
        Clock::new(3, 0.003)
    }

    fn new(rounds: usize, slice: f64) -> Self {
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        Clock { rounds, slice, one: pool(1), two: pool(2) }
    }

    /// A measurement of `f` on this pool, in seconds per call. Warms up first and determines how
    /// many calls fill a slice, so that the clock is not read between calls.
    pub(crate) fn on<'a>(&self, pool: &'a ThreadPool, mut f: impl FnMut() + Send + 'a) -> Measurement<'a> {
        let slice = self.slice;
        let calls = pool.install(|| {
            let (start, mut calls) = (Instant::now(), 0);
            while calls < 3 || start.elapsed().as_secs_f64() < slice {
                f();
                calls += 1;
            }
            (calls as f64 * slice / start.elapsed().as_secs_f64()).ceil() as usize
        });
        Box::new(move || {
            pool.install(|| {
                let start = Instant::now();
                for _ in 0..calls {
                    f();
                }
                start.elapsed().as_secs_f64() / calls as f64
            })
        })
    }

    /// Takes the measurements in turns, in alternating order from round to round.
    pub(crate) fn in_turns<const N: usize>(&self, mut measurements: [Measurement<'_>; N]) -> Vec<[f64; N]> {
        (0..self.rounds)
            .map(|round| {
                let mut results = [0.0; N];
                for turn in 0..N {
                    let at = if round % 2 == 0 { turn } else { N - 1 - turn };
                    results[at] = measurements[at]();
                }
                results
            })
            .collect()
    }

    /// The time difference of the first and the second in nanoseconds, divided by `count`, on one
    /// thread.
    pub(crate) fn nanoseconds_beyond(
        &self,
        count: usize,
        with: impl FnMut() + Send,
        without: impl FnMut() + Send,
    ) -> Seen {
        let rounds = self.in_turns([self.on(&self.one, with), self.on(&self.one, without)]);
        let scale = 1e9 / count as f64;
        Seen::of(&rounds, |[with, without]| (with - without) * scale)
    }
}

/// A figure over all rounds.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// The median of the rounds.
    pub(crate) median: f64,
    /// The figure of the fastest run of each variant: less disturbed by other processes, but biased
    /// towards lucky runs.
    pub(crate) fastest: f64,
}

impl Seen {
    /// `result` computes the figure from the times of a round.
    pub(crate) fn of<const N: usize>(rounds: &[[f64; N]], result: impl Fn([f64; N]) -> f64) -> Self {
        let fastest = std::array::from_fn(|at| rounds.iter().map(|round| round[at]).fold(f64::INFINITY, f64::min));
        Seen { median: median(rounds.iter().map(|&round| result(round))), fastest: result(fastest) }
    }
}

/// A repeatable measurement.
pub(crate) type Measurement<'a> = Box<dyn FnMut() -> f64 + 'a>;

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
