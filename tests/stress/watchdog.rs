//! Aborts the process with the seed of the graph if a test hangs.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TOO_LONG: Duration = Duration::from_secs(120);

/// Watches one thread.
pub(crate) struct Watchdog(Arc<Mutex<Option<(u64, Instant)>>>);

impl Watchdog {
    pub(crate) fn start() -> Watchdog {
        let watched = Arc::new(Mutex::new(None));
        let weak = Arc::downgrade(&watched);
        std::thread::spawn(move || {
            while let Some(watched) = weak.upgrade() {
                let running: Option<(u64, Instant)> = *watched.lock().unwrap();
                drop(watched);
                if let Some((seed, since)) = running
                    && since.elapsed() > TOO_LONG
                {
                    // not with `eprintln`: the test harness captures its output until the test
                    // ends
                    let _ = writeln!(std::io::stderr(), "the graph hangs; {}", again(seed));
                    std::process::exit(101);
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Watchdog(watched)
    }

    /// Runs the test of a graph under supervision.
    pub(crate) fn watch<R>(&self, seed: u64, test: impl FnOnce() -> R) -> R {
        *self.0.lock().unwrap() = Some((seed, Instant::now()));
        let result = test();
        *self.0.lock().unwrap() = None;
        result
    }
}

/// The command that runs a graph again.
pub(crate) fn again(seed: u64) -> String {
    format!("again, a hundred times: DL_STRESS_SEED={seed} cargo test --release --test stress")
}
