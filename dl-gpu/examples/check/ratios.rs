//! What grouping saves, and what a launch costs the host. Medians of rounds in turns; the shapes are
//! small, so that launches and waits take most of the time.

use crate::matrix;
use crate::workloads::{exits, median};
use dl_core::{Differentiable, Do, Layer, Result, Weight};
use dl_nd::device::{Check, Counters, Device, OutOfRange, Readout, Reads, Span, View, Work};
use dl_nd::{MoveModule, Nd, NdLayer, NdWeight, ops::*};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const ROUNDS: usize = 15;
const SAMPLES: usize = 64;
const WIDTH: usize = 16;

pub(crate) fn measure(device: &Arc<dyn Device>) -> Result<()> {
    let timed = Arc::new(Timed::new(device));
    decisions(&timed)?;
    products(&timed)?;
    host_time(&timed)
}

/// The seconds of a run, and those of them in calls of the device.
fn seconds(timed: &Timed, run: &mut dyn FnMut() -> Result<()>) -> Result<[f64; 2]> {
    timed.take();
    let start = Instant::now();
    run()?;
    let whole = start.elapsed().as_secs_f64();
    Ok([whole, 1e-9 * timed.take().all])
}

/// Prints how many times as long the second takes as the first.
fn report(
    name: &str,
    device: &Timed,
    mut together: impl FnMut() -> Result<()>,
    mut one_by_one: impl FnMut() -> Result<()>,
) -> Result<()> {
    let spent = |run: &mut dyn FnMut() -> Result<()>| -> Result<[u64; 2]> {
        (0..4).try_for_each(|_| run())?; // compiles
        let before = device.counters();
        run()?;
        let after = device.counters();
        Ok([after.launches - before.launches, after.syncs - before.syncs])
    };
    let [few, many] = [spent(&mut together)?, spent(&mut one_by_one)?];
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([seconds(device, &mut together)?, seconds(device, &mut one_by_one)?]);
    }
    println!(
        "{name}: together {:.0} µs, {} launches, {} waits; one by one {:.0} µs, {} launches, {} waits; \
         ratio {:.1}, of the calls of the device {:.1}",
        1e6 * median(&rounds, |round| round[0][0]),
        few[0],
        few[1],
        1e6 * median(&rounds, |round| round[1][0]),
        many[0],
        many[1],
        median(&rounds, |round| round[1][0] / round[0][0]),
        median(&rounds, |round| round[1][1] / round[0][1]),
    );
    Ok(())
}

/// 64 samples with 8 decisions each in one pass, and a pass for each sample.
fn decisions(timed: &Arc<Timed>) -> Result<()> {
    let place: Arc<dyn Device> = timed.clone();
    let all: Vec<Layer<f32>> = exits(Some(&place), WIDTH, SAMPLES)?;
    report(
        "64 samples with 8 decisions",
        timed,
        || Do::predict(all.clone()).wait().map(drop),
        || all.iter().try_for_each(|sample| sample.predict().wait().map(drop)),
    )
}

/// 64 equal products in one launch, and in a launch for each.
fn products(timed: &Arc<Timed>) -> Result<()> {
    let place: Arc<dyn Device> = timed.clone();
    let w = matrix([WIDTH, WIDTH], 1, 0.05).to(&place)?;
    let samples: Vec<Nd> = (0..SAMPLES).map(|seed| matrix([1, WIDTH], seed, 1.0).to(&place)).collect::<Result<_>>()?;
    let layers: Vec<NdLayer> = samples.iter().map(|x| x.matmul(&w)).collect();
    let end = |last: Nd| last.to_host().map(drop);
    report(
        "64 products",
        timed,
        || end(Do::predict(layers.clone()).wait()?.swap_remove(SAMPLES - 1)),
        || {
            let mut last = None;
            for layer in &layers {
                last = Some(layer.predict().wait()?);
                timed.flush()?;
            }
            end(last.expect("there are products"))
        },
    )
}

/// A device that measures how long the calls of another one take.
struct Timed {
    device: Arc<dyn Device>,
    recorded: AtomicU64,
    launch_ns: AtomicU64,
    memory_ns: AtomicU64,
    flush_ns: AtomicU64,
    read_ns: AtomicU64,
}

/// Nanoseconds.
struct Spent {
    /// Of a recorded operation.
    launch: f64,
    /// Of the memory for it.
    memory: f64,
    /// Of all flushes.
    flush: f64,
    /// Of all calls.
    all: f64,
}

impl Timed {
    fn new(device: &Arc<dyn Device>) -> Timed {
        let new = AtomicU64::default;
        let (launch_ns, memory_ns, flush_ns, read_ns) = (new(), new(), new(), new());
        Timed { device: device.clone(), recorded: new(), launch_ns, memory_ns, flush_ns, read_ns }
    }

    fn timed<R>(total: &AtomicU64, run: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = run();
        total.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
        result
    }

    /// What has been spent since the last call of this.
    fn take(&self) -> Spent {
        let counts = [&self.recorded, &self.launch_ns, &self.memory_ns, &self.flush_ns, &self.read_ns];
        let [recorded, launch, memory, flush, read] = counts.map(|total| total.swap(0, Relaxed) as f64);
        let all = launch + memory + flush + read;
        Spent { launch: launch / recorded.max(1.0), memory: memory / recorded.max(1.0), flush, all }
    }
}

impl Device for Timed {
    fn name(&self) -> String {
        self.device.name()
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn allocate(&self, bytes: usize) -> Result<Span> {
        Timed::timed(&self.memory_ns, || self.device.allocate(bytes))
    }

    fn free(&self, span: Span) {
        Timed::timed(&self.memory_ns, || self.device.free(span))
    }

    fn write(&self, to: Span, bytes: &[u8]) -> Result<()> {
        self.device.write(to, bytes)
    }

    fn launch(&self, work: &Work<'_>) -> Result<()> {
        self.recorded.fetch_add(1, Relaxed);
        Timed::timed(&self.launch_ns, || self.device.launch(work))
    }

    fn flush(&self) -> Result<()> {
        Timed::timed(&self.flush_ns, || self.device.flush())
    }

    fn check(&self, of: &View, below: usize, except: Option<usize>, error: OutOfRange) -> Result<Check> {
        self.device.check(of, below, except, error)
    }

    fn read(&self, reads: &mut [Readout]) -> Result<()> {
        Timed::timed(&self.read_ns, || self.device.read(reads))
    }

    fn reads(&self) -> &Reads {
        self.device.reads()
    }
}

/// What the host spends on a recorded operation, and on a flush.
fn host_time(timed: &Arc<Timed>) -> Result<()> {
    let place: Arc<dyn Device> = timed.clone();
    let w: NdWeight = Weight::new(matrix([WIDTH, WIDTH], 1, 0.05));
    w.move_to(&place)?;
    let samples: Vec<Nd> = (0..SAMPLES).map(|seed| matrix([1, WIDTH], seed, 1.0).to(&place)).collect::<Result<_>>()?;
    // a segment of so many samples with a chain of so many operations
    let operations: [(&str, fn(&NdLayer, &NdWeight) -> NdLayer); 2] =
        [("product", |x, w| x.matmul(w)), ("program", |x, w| (x.sum_keepdim(1) * x).tanh() + w.slice_axis(0, ..1))];
    let nothing = AtomicU64::default();
    (0..1000).for_each(|_| Timed::timed(&nothing, || ()));
    let clock = nothing.load(Relaxed) as f64 / 1000.0;
    for (name, operation) in operations {
        let mut flushes = [0.0; 3];
        for (which, [count, depth]) in [[1, 1], [1, 64], [64, 1]].into_iter().enumerate() {
            let chain = |x: &Nd| (0..depth).fold(x.layer(), |x, _| operation(&x, &w));
            let layers: Vec<NdLayer> = samples[..count].iter().map(chain).collect();
            let mut rounds = Vec::new();
            for round in 0..ROUNDS + 4 {
                timed.take();
                let values = Do::predict(layers.clone()).wait()?;
                place.flush()?;
                rounds.push(timed.take());
                values[0].to_host()?;
                if round < 4 {
                    rounds.clear(); // it compiles
                }
            }
            flushes[which] = median(&rounds, |round: &Spent| round.flush) - clock;
            println!(
                "{name}, {count} × {depth}: {:.2} µs to record it, {:.2} µs for its memory",
                (median(&rounds, |round| round.launch) - clock) / 1e3,
                (median(&rounds, |round| round.memory) - 2.0 * clock) / 1e3,
            );
        }
        let [one, deep, wide] = flushes.map(|ns| ns / 1e3);
        println!("{name}: flush of 1 × 1 in {one:.1} µs, of 1 × 64 in {deep:.1} µs, of 64 × 1 in {wide:.1} µs");
    }
    Ok(())
}
