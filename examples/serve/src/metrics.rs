//! Counters and histograms in the text format of Prometheus, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The upper bounds of latencies in seconds.
const SECONDS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The upper bounds of the sizes of batches.
const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// What the service has done so far.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of requests by path and status.
    requests: BTreeMap<(&'static str, u16), u64>,
    seconds: BTreeMap<&'static str, Histogram>,
    sizes: BTreeMap<&'static str, Histogram>,
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has been answered.
    pub(crate) fn answered(&self, path: &'static str, status: u16, latency: Duration) {
        let mut state = self.lock();
        *state.requests.entry((path, status)).or_default() += 1;
        state.seconds.entry(path).or_insert_with(|| Histogram::new(SECONDS)).add(latency.as_secs_f64());
    }

    /// A batch of a model begins.
    pub(crate) fn batch(&self, model: &'static str, size: usize) {
        self.lock().sizes.entry(model).or_insert_with(|| Histogram::new(SIZES)).add(size as f64);
    }

    /// All metrics, with the number of inputs that wait for each model.
    pub(crate) fn text(&self, queues: &[(&'static str, usize)]) -> String {
        let (mut text, state) = (String::new(), self.lock());
        state.write(queues, &mut text).expect("a string");
        text
    }
}

impl State {
    fn write(&self, queues: &[(&'static str, usize)], to: &mut String) -> fmt::Result {
        head(to, "serve_requests_total", "counter", "Answered requests by path and status.")?;
        for ((path, status), count) in &self.requests {
            writeln!(to, "serve_requests_total{{path=\"{path}\",status=\"{status}\"}} {count}")?;
        }
        head(to, "serve_queue_length", "gauge", "Inputs that wait for a batch.")?;
        for (model, length) in queues {
            writeln!(to, "serve_queue_length{{model=\"{model}\"}} {length}")?;
        }
        head(to, "serve_batch_size", "histogram", "Inputs that are computed together.")?;
        for (model, sizes) in &self.sizes {
            sizes.write("serve_batch_size", &format!("model=\"{model}\""), to)?;
        }
        head(to, "serve_request_seconds", "histogram", "Time from the head of a request to its answer.")?;
        for (path, seconds) in &self.seconds {
            seconds.write("serve_request_seconds", &format!("path=\"{path}\""), to)?;
        }
        Ok(())
    }
}

fn head(to: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(to, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

struct Histogram {
    bounds: &'static [f64],
    /// The number of observations between two bounds; the last is of those above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, observation: f64) {
        self.counts[self.bounds.partition_point(|&bound| bound < observation)] += 1;
        self.sum += observation;
    }

    /// Buckets are cumulative: that of a bound counts all observations up to it.
    fn write(&self, name: &str, labels: &str, to: &mut String) -> fmt::Result {
        let mut count = 0;
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, own) in bounds.zip(&self.counts) {
            count += own;
            writeln!(to, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}")?;
        }
        writeln!(to, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {count}", self.sum)
    }
}
