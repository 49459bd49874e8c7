//! Selection and measurement of workloads, and output of rows.

use super::Pace;
use std::fmt;
use std::hint::black_box;

/// A measurement, a line of the table.
#[derive(Clone)]
pub struct Row {
    pub workload: &'static str,
    pub variant: String,
    pub threads: usize,
    pub library: String,
    pub value: f64,
    pub unit: &'static str,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { workload, variant, threads, library, value, unit } = self;
        write!(f, "{workload},{variant},{threads},{library},{value:.6},{unit}")
    }
}

/// Measures the workloads of one library on a given number of threads. Prints each row when it is
/// measured, and keeps it.
pub struct Bench {
    pub threads: usize,
    pub library: String,
    pub pace: Pace,
    /// The workloads to run; empty for all.
    pub chosen: Vec<String>,
    /// Runs only variants with this text in their name; empty for all.
    pub variants: String,
    pub rows: Vec<Row>,
}

impl Bench {
    pub fn new(library: &str, threads: usize, pace: Pace) -> Self {
        Bench {
            threads,
            library: library.to_owned(),
            pace,
            chosen: Vec::new(),
            variants: String::new(),
            rows: Vec::new(),
        }
    }

    /// `program THREADS LIBRARY [workload…] [--variants TEXT] [--quick]`. The library name is an
    /// argument because it depends on how the program was built.
    pub fn from_arguments() -> Self {
        let mut arguments = std::env::args().skip(1);
        let usage = "usage: program THREADS LIBRARY [workload…] [--variants TEXT] [--quick]";
        let threads = arguments.next().and_then(|threads| threads.parse().ok()).expect(usage);
        let mut bench = Bench::new(&arguments.next().expect(usage), threads, Pace::THOROUGH);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => bench.pace = Pace::QUICK,
                "--variants" => bench.variants = arguments.next().expect(usage),
                _ => bench.chosen.push(argument),
            }
        }
        bench
    }

    /// Whether this workload is selected.
    pub fn wants(&self, workload: &str) -> bool {
        self.chosen.is_empty() || self.chosen.iter().any(|chosen| chosen == workload)
    }

    /// Whether this variant is selected.
    pub fn wants_variant(&self, variant: &str) -> bool {
        variant.contains(&self.variants)
    }

    /// Runs a workload if it is selected. A panic is reported and does not stop the others.
    pub fn run(&mut self, workload: &str, measure: impl FnOnce(&mut Self)) {
        if self.wants(workload) {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| measure(self)));
            if outcome.is_err() {
                eprintln!("FAIL {workload},{},{}", self.threads, self.library);
            }
        }
    }

    /// Training steps per second. `step` returns the loss; the first and the tenth are printed for
    /// comparison.
    pub fn training(&mut self, workload: &'static str, variant: &str, mut step: impl FnMut() -> f64) {
        if !self.wants_variant(variant) {
            return;
        }
        let losses: Vec<f64> = (0..10).map(|_| step()).collect();
        self.check(workload, variant, &[losses[0], losses[9]]);
        let seconds = self.pace.seconds_per_call(|| {
            black_box(step());
        });
        self.row(workload, variant, 1.0 / seconds, "it/s");
    }

    /// Nanoseconds per operation of `f`, which executes `count` operations.
    pub fn operations<R>(
        &mut self,
        workload: &'static str,
        variant: &str,
        operations: usize,
        mut f: impl FnMut() -> R,
    ) {
        if self.wants_variant(variant) {
            let seconds = self.pace.seconds_per_call(|| {
                black_box(f());
            });
            self.row(workload, variant, seconds * 1e9 / operations as f64, "ns/op");
        }
    }

    /// Milliseconds per call of `f`.
    pub fn milliseconds(&mut self, workload: &'static str, variant: &str, f: impl FnMut()) {
        if self.wants_variant(variant) {
            let seconds = self.pace.seconds_per_call(f);
            self.row(workload, variant, seconds * 1e3, "ms");
        }
    }

    /// GFLOP/s of `f`, which computes `count` products.
    pub fn products(&mut self, variant: &str, [m, k, n]: [usize; 3], count: usize, f: impl FnMut()) {
        if self.wants_variant(variant) {
            let seconds = self.pace.seconds_per_call(f);
            self.row("w4", variant, 2e-9 * (m * k * n * count) as f64 / seconds, "GFLOP/s");
        }
    }

    /// Microseconds of single calls: the median and the 99th percentile.
    pub fn latency(&mut self, workload: &'static str, variant: &str, f: impl FnMut()) {
        if self.wants_variant(variant) {
            let [median, p99] = self.pace.latencies(f);
            self.row(workload, &format!("{variant};median"), median * 1e6, "us");
            self.row(workload, &format!("{variant};p99"), p99 * 1e6, "us");
        }
    }

    pub fn row(&mut self, workload: &'static str, variant: &str, value: f64, unit: &'static str) {
        let (variant, library) = (variant.to_owned(), self.library.clone());
        let row = Row { workload, variant, threads: self.threads, library, value, unit };
        println!("{row}");
        self.rows.push(row);
    }

    /// Prints results to standard error, by which the libraries are checked against each other.
    pub fn check(&self, workload: &str, variant: &str, results: &[f64]) {
        let results: Vec<String> = results.iter().map(|result| format!("{result:.6}")).collect();
        eprintln!("CHECK {workload},{variant},{},{},{}", self.threads, self.library, results.join(" "));
    }
}
