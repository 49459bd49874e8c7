//! Two ranks as processes, beside MPI by itself (`benches/peers/mpi/raw.c`) and PyTorch's
//! `DistributedDataParallel` (`benches/peers/python/ddp_peer.py`), and steps in parts on one rank,
//! in turns:
//!
//! ```sh
//! just ranks --quick
//! just ranks --rounds 9 --python target/peers/python/bin/python
//! ```
//!
//! Prints the medians over the rounds, and of the ratios of each round. Each rank has one core, for all
//! of its threads. With other programs on the machine, or no core for the communication threads, the
//! times are upper limits.

#[path = "../../benches/peers/common/src/numbers.rs"]
#[allow(dead_code, unreachable_pub, missing_docs, reason = "the peers use all of it")]
mod numbers;

use dl_core::{Differentiable, Layer, Module, Optimizer, Parts, Result, SideEffects, Visitor, Weight};
use dl_dist::{Cluster, remote};
use dl_nd::{Nd, NdLayer, ops::*};
use dl_nn::{Block, Linear};
use dl_optim::{Adam, Sgd};
use numbers::{Numbers, labels};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Set in the processes of a job: how often it repeats each measurement.
const WORKER: &str = "DL_RANKS_BENCH";
/// Set in the process that has one rank.
const ALONE: &str = "DL_ALONE_BENCH";
const RANKS: usize = 2;
const BATCH: usize = 64;
/// The lengths of the sums that are compared with `MPI_Allreduce`, in rows of 1024.
const SIZES: [usize; 4] = [1 << 10, 1 << 16, 1 << 20, 6348 << 10];

fn main() {
    let repeats = |name| std::env::var(name).ok().map(|repeats| repeats.parse().expect("a number"));
    match (repeats(WORKER), repeats(ALONE)) {
        (Some(repeats), _) => worker(repeats).expect("it succeeds"),
        (_, Some(repeats)) => alone(repeats).expect("it succeeds"),
        _ => compare(),
    }
}

type Call<'a> = &'a mut dyn FnMut() -> Result<()>;

/// The median times of calls in µs, which are made in turns.
fn medians<const N: usize>(repeats: usize, mut calls: [Call<'_>; N]) -> Result<[f64; N]> {
    let mut times = [const { Vec::new() }; N];
    for round in 0..repeats + 3 {
        for (call, times) in calls.iter_mut().zip(&mut times) {
            let begin = Instant::now();
            call()?;
            if round >= 3 {
                times.push(begin.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[repeats / 2]
    }))
}

/// The median time of a call in µs, of which the calls of all ranks are alike.
fn median(repeats: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    Ok(medians(repeats, [&mut call])?[0])
}

/// Its value is its argument.
#[derive(Clone, dl_macros::Module)]
#[module(crate = dl_core)]
struct Scaled(Weight<f32>);

#[remote(crate = dl_dist)]
impl Block for Scaled {
    fn of(&self, x: &NdLayer) -> NdLayer {
        x * &self.0
    }
}

struct Mlp {
    layers: [Linear; 3],
    batches: Vec<Nd>,
    classes: Vec<usize>,
}

impl Module for Mlp {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("layers", &self.layers);
    }
}

impl Mlp {
    fn new() -> Mlp {
        let mut numbers = Numbers::new(11);
        let mut nd = |rows: usize, columns: usize, is_weight: bool| {
            let row = if is_weight { numbers.weight(rows, columns) } else { numbers.uniform(rows * columns, 1.0) };
            Nd::from_vec([rows, columns], row).expect("as many numbers as it takes")
        };
        let batches = (0..4).map(|_| nd(BATCH, 784, false)).collect();
        let layers = [(784, 1024), (1024, 1024), (1024, 10)].map(|(inputs, outputs)| Linear {
            weight: Weight::new(nd(inputs, outputs, true)),
            bias: Some(Weight::new(Nd::full([outputs], 0.0))),
        });
        Mlp { layers, batches, classes: labels(BATCH) }
    }

    /// The loss of a part of a batch.
    fn loss(&self, step: usize, part: usize, parts: usize) -> Layer<f32> {
        let rows = BATCH * part / parts..BATCH * (part + 1) / parts;
        let images = Layer::constant(self.batches[step % self.batches.len()].clone()).slice_axis(0, rows.clone());
        let [first, second, last] = &self.layers;
        let logits = last.of(second.of(first.of(images).relu()).relu());
        logits.cross_entropy(Nd::from(self.classes[rows].to_vec()))
    }
}

/// What one process of the job does. Rank 0 prints a line `NAME SIZE MICROSECONDS` for each
/// measurement.
fn worker(repeats: usize) -> Result<()> {
    let sgd = Sgd::new(0.01);
    Cluster::run(|cluster| {
        let print = |name: &str, size: usize, value: f64| {
            if cluster.rank() == 0 {
                println!("{name} {size} {value:.6}");
            }
        };
        let nothing: Vec<Weight<f32>> = Vec::new();
        print("exchange", 0, median(20 * repeats, || cluster.compare(&nothing))?);
        cluster.set_optimizer(&sgd)?;
        let far = cluster.place(1, || Ok(Scaled(Weight::new(1.0))))?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([1, 1], 1.0));
            print("call", 0, median(20 * repeats, || far.of(&x).predict().wait().map(drop))?);
            let before = cluster.sent_to(1).calls;
            let step = || far.of(&x).sum().train(&sgd).wait().map(drop);
            print("remote-step", 0, median(repeats, step)?);
            // the decision and the release have no answer
            let messages = (cluster.sent_to(1).calls - before) as f64 / (repeats + 3) as f64;
            print("round-trips", 0, messages.round() - 2.0);
        }
        cluster.compare(&nothing)?;

        for size in SIZES {
            // Its delta is a product that is computed.
            let w = Weight::new(Nd::full([size >> 10, 1 << 10], 0.0));
            let x: NdLayer = Layer::constant(Nd::full([1, size >> 10], 1.0));
            let loss = |_| x.matmul(&w).sum();
            let repeats = if size < 1 << 20 { repeats } else { repeats / 5 + 1 };
            let alone = median(repeats, || Parts::sum([loss(0)]).value_and_backward().wait().map(drop))?;
            let together = median(repeats, || cluster.sum(cluster.size(), loss).backward(&w).map(drop))?;
            print("sum", size, together - alone);
            let alone = median(repeats, || Parts::sum([loss(0)]).train(&sgd).wait().map(drop))?;
            let together = median(repeats, || cluster.sum(cluster.size(), loss).train(&w, &sgd).map(drop))?;
            print("sum-and-step", size, together - alone);
        }

        let (mlp, parts) = (Mlp::new(), cluster.size());
        let mut step = 0;
        let mut losses = Vec::new();
        for _ in 0..10 {
            losses.push(cluster.mean(parts, |part| mlp.loss(step, part, parts)).train(&mlp, &sgd)?);
            step += 1;
        }
        let mean = |losses: &[f32]| f64::from(losses.iter().sum::<f32>()) / losses.len() as f64;
        print("loss", 1, mean(&losses[0]));
        print("loss", 10, mean(&losses[9]));
        let together = median(repeats, || {
            step += 1;
            cluster.mean(parts, |part| mlp.loss(step, part, parts)).train(&mlp, &sgd).map(drop)
        })?;
        print("step", parts, together);
        cluster.compare(&mlp)?;
        let alone = median(repeats, || {
            step += 1;
            Parts::mean([mlp.loss(step, cluster.rank(), parts)]).train(&sgd).wait().map(drop)
        })?;
        print("step", 1, alone);
        Ok(())
    })
}

/// Steps of one process.
fn alone(repeats: usize) -> Result<()> {
    steps_of_parts("sgd", repeats, &Sgd::new(0.01))?;
    steps_of_parts("adam", repeats, &Adam::new(1e-4))
}

/// A step on the mean of the losses of some parts in one pass, on deltas that are added part by
/// part, in `Parts`, and on one rank of a cluster.
fn steps_of_parts<O: Optimizer + Clone + Sync + 'static>(name: &str, repeats: usize, optimizer: &O) -> Result<()> {
    const PARTS: usize = 4;
    Cluster::run(|cluster| {
        let (mlp, step) = (Mlp::new(), Cell::new(0));
        let next = || step.replace(step.get() + 1);
        let losses = |step: usize| (0..PARTS).map(|part| mlp.loss(step, part, PARTS)).collect::<Vec<_>>();
        let mut plain = || {
            (losses(next()).into_iter().sum::<Layer<f32>>() * (1.0 / PARTS as f32)).train(optimizer).wait().map(drop)
        };
        let mut added = || {
            let mut sum = SideEffects::none();
            for loss in losses(next()) {
                sum += loss.backward().wait()?.evaluate().wait()?;
            }
            (1.0 / PARTS as f64 * sum).step(optimizer).wait()
        };
        let mut parts = || Parts::mean(losses(next())).train(optimizer).wait().map(drop);
        let mut one_rank = || {
            let step = next();
            cluster.mean(PARTS, |part| mlp.loss(step, part, PARTS)).train(&mlp, optimizer).map(drop)
        };
        let [plain, added, parts, one_rank] = medians(repeats, [&mut plain, &mut added, &mut parts, &mut one_rank])?;
        for (way, time) in [("plain", plain), ("added", added), ("parts", parts), ("one-rank", one_rank)] {
            println!("{name}-{way} {PARTS} {time:.6}");
        }
        Ok(())
    })
}

/// The lines `NAME SIZE VALUE` that a job prints.
type Measured = BTreeMap<(String, usize), f64>;

fn mpirun(settings: &[(&str, String)], program: &Path, arguments: &[String]) -> String {
    let mut command = Command::new("mpirun");
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    // A core for each rank: otherwise the threads of both ranks may share one.
    let binding = ("OMPI_MCA_hwloc_base_binding_policy", "core:overload-allowed");
    command.envs([("OMPI_MCA_rmaps_base_oversubscribe", "1"), binding]);
    command.env("RAYON_NUM_THREADS", "1").envs(settings.iter().map(|(name, value)| (name, value)));
    let output =
        command.args(["-n", &RANKS.to_string()]).arg(program).args(arguments).output().expect("there is `mpirun`");
    assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

fn parsed(text: &str) -> Measured {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some(((words.next()?.to_owned(), words.next()?.parse().ok()?), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn compare() {
    let (mut rounds, mut repeats, mut python) = (3, 100, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &word[..] {
            "--quick" => (rounds, repeats) = (1, 5),
            "--rounds" => rounds = words.next().and_then(|rounds| rounds.parse().ok()).expect("--rounds N"),
            "--python" => python = Some(words.next().expect("--python PROGRAM")),
            "--bench" => {}
            other => panic!("{other} is no argument"),
        }
    }
    let peers: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../benches/peers"].iter().collect();
    let raw = std::env::temp_dir().join(format!("dl-raw-mpi-{}", std::process::id()));
    let built = Command::new("mpicc").arg("-O2").arg(peers.join("mpi/raw.c")).arg("-o").arg(&raw).status();
    assert!(built.expect("there is `mpicc`").success());
    let ddp = peers.join("python/ddp_peer.py").display().to_string();

    let mut all: Vec<Measured> = Vec::new();
    for round in 0..rounds {
        let mut measured = parsed(&mpirun(&[], &raw, &[repeats.to_string()]));
        let this = std::env::current_exe().expect("this program");
        let on_one = Command::new(&this).env("RAYON_NUM_THREADS", "1").env(ALONE, repeats.to_string()).output();
        let on_one = on_one.expect("this program runs");
        assert!(on_one.status.success(), "{}", String::from_utf8_lossy(&on_one.stderr));
        measured.extend(parsed(&String::from_utf8_lossy(&on_one.stdout)));
        measured.extend(parsed(&mpirun(&[(WORKER, repeats.to_string())], &this, &[])));
        if let Some(python) = &python {
            let text = mpirun(&[], Path::new(python), &[ddp.clone(), repeats.to_string()]);
            let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
            let names = [("ddp-loss", 1), ("ddp-loss", 10), ("ddp-step", RANKS), ("ddp-step", 1)];
            measured.extend(names.iter().zip(numbers).map(|((name, size), value)| ((name.to_string(), *size), value)));
            for step in [1, 10] {
                let [ours, theirs] = ["loss", "ddp-loss"].map(|name| measured[&(name.to_owned(), step)]);
                assert!((ours - theirs).abs() < 1e-3 * theirs.abs(), "step {step}: loss {ours}, DDP {theirs}");
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
        all.push(measured);
    }
    let _ = std::fs::remove_file(raw);
    print(&all);
}

/// The median over the rounds of a function of what was measured.
fn over_rounds(all: &[Measured], of: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = all.iter().filter_map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn print(all: &[Measured]) {
    println!("| | µs |\n|---|---|");
    for (name, size) in all[0].keys().filter(|(name, _)| !name.contains("loss")) {
        let value = over_rounds(all, |measured| measured.get(&(name.clone(), *size)).copied());
        println!("| {name} {size} | {:.1} |", value.expect("it was measured"));
    }
    println!("\n| ratio | | goal |\n|---|---|---|");
    let ratio = |words: &str, one: (&str, usize), other: (&str, usize), goal: &str| {
        let value = |measured: &Measured, (name, size): (&str, usize)| measured.get(&(name.to_owned(), size)).copied();
        if let Some(ratio) = over_rounds(all, |measured| Some(value(measured, one)? / value(measured, other)?)) {
            println!("| {words} | {ratio:.3} | {goal} |");
        }
    };
    ratio("exchange of nothing / ping-pong of 8 bytes", ("exchange", 0), ("ping-pong", 8), "20");
    ratio("call of nothing / ping-pong of 8 bytes", ("call", 0), ("ping-pong", 8), "20");
    for size in SIZES {
        let goal = if size < 1 << 20 { "" } else { "1.3" };
        ratio(&format!("ordered sum / all-reduce of {size} numbers"), ("sum", size), ("all-reduce", size), goal);
        ratio("the same with the step", ("sum-and-step", size), ("all-reduce", size), "");
    }
    for (optimizer, goal) in [("sgd", ""), ("adam", "1.05")] {
        let [plain, added, parts, one] =
            ["plain", "added", "parts", "one-rank"].map(|way| format!("{optimizer}-{way}"));
        ratio(&format!("{optimizer}: step in parts / on their mean in one pass"), (&parts, 4), (&plain, 4), goal);
        ratio(&format!("{optimizer}: step in parts / on added deltas"), (&parts, 4), (&added, 4), "1.05");
        ratio(&format!("{optimizer}: step of one rank / in parts"), (&one, 4), (&parts, 4), "1.01");
    }
    ratio("step on 2 ranks / step of one share alone", ("step", RANKS), ("step", 1), "");
    ratio("the same of DDP", ("ddp-step", RANKS), ("ddp-step", 1), "");
    ratio("DDP / step on 2 ranks", ("ddp-step", RANKS), ("step", RANKS), "at least 1.2");
}
