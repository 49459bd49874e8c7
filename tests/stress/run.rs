//! All tests of one graph.

use super::build::{Built, build};
use super::expected::{Expected, Recorder, Verdict, same};
use super::foreign::block_on;
use super::graph::Graph;
use super::ledger::Ledger;
use super::numbers::Value;
use super::random;
use super::statistics::Statistics;
use dl::{Chunk, Differentiable, Do, Error, Optimizer, Result, Run, Sgd};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::ThreadPool;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

/// Pools of 1 to 8 threads.
pub(crate) fn pools() -> Vec<ThreadPool> {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    (1..=8).map(pool).collect()
}

/// Tests the graph of a seed.
pub(crate) fn check(seed: u64, pools: &[ThreadPool], statistics: &Statistics) -> Verdict {
    let graph = random::graph(seed);
    let weights: Vec<Value> = graph.weights.iter().map(|variable| Value::of(variable.kind, variable.value)).collect();
    let ledger = Arc::<Ledger>::default();
    let built = build(&graph, &ledger);
    let expected = graph.roots.iter().map(|&root| Expected::of(&graph, &weights, root)).collect();
    let mut case = Case { rng: ChaCha8Rng::seed_from_u64(!seed), graph, weights, built, expected, ledger, statistics };

    let pool = &pools[case.rng.random_range(0..pools.len())];
    let once = case.once(pool);
    let mut verdict = once.map_err(|wrong| format!("the first passes: {wrong}"));
    for round in 0..4 {
        let pool = &pools[case.rng.random_range(0..pools.len())];
        let step = |wrong| format!("round {round} on {} threads: {wrong}", pool.current_num_threads());
        verdict = verdict.and_then(|()| case.round(pool).map_err(step));
    }
    let pool = &pools[case.rng.random_range(0..pools.len())];
    verdict = verdict.and_then(|()| case.steps(pool).map_err(|wrong| format!("training steps: {wrong}")));

    statistics.count(&case.graph, &case.expected, case.ledger.made());
    let Case { built, ledger, .. } = case;
    drop(built);
    verdict.and_then(|()| ledger.close())
}

struct Case<'s> {
    rng: ChaCha8Rng,
    graph: Graph,
    /// The values of the weights in the reference.
    weights: Vec<Value>,
    built: Built,
    /// The expected results of each root.
    expected: Vec<Expected>,
    ledger: Arc<Ledger>,
    statistics: &'s Statistics,
}

impl Case<'_> {
    /// The first passes. No earlier work is still running, so kernels can be counted.
    fn once(&self, pool: &ThreadPool) -> Verdict {
        for (root, expected) in self.expected.iter().enumerate() {
            if expected.predicted.is_err() || expected.trained.is_err() {
                return Ok(());
            }
            let before = self.ledger.kernels();
            self.predict(root, |run| pool.install(|| run.wait()))?;
            let between = self.ledger.kernels();
            self.train(root, |run| pool.install(|| run.wait()))?;
            let kernels = (between - before, self.ledger.kernels() - between);
            let (predict, train) = (expected.kernels_of_predict, expected.kernels_of_train);
            if kernels != (predict, train) {
                return Err(format!("evaluated {kernels:?} kernels instead of {:?}", (predict, train)));
            }
        }
        Ok(())
    }

    /// A random action in this pool. Afterwards every weight must be unchanged.
    fn round(&mut self, pool: &ThreadPool) -> Verdict {
        let root = self.rng.random_range(0..self.expected.len());
        match self.rng.random_range(0..14) {
            0 => self.predict(root, |run| pool.install(|| run.wait()))?,
            1 => self.predict(root, |run| run.wait())?,
            2 => self.predict(root, |run| block_on(run.run()))?,
            3 | 4 => self.train(root, |run| pool.install(|| run.wait()))?,
            5 => self.train(root, |run| run.wait())?,
            6 => self.train(root, |run| block_on(run.run()))?,
            7 => self.train(root, |run| pool.install(|| block_on(run.run())))?,
            8 => pool.install(|| self.by_tape(root))?,
            9 => self.refused(root, pool)?,
            10 => self.at_once(pool)?,
            _ => {
                let recorder = Recorder::default();
                let run = self.built.roots[root].train(&recorder).run();
                if let Some(found) = self.cancelled(run, pool) {
                    self.expected[root].judge_trained(&self.built, found, &recorder.deltas())?;
                }
                same("deltas of a cancelled step", &[], &recorder.deltas())?;
                self.train(root, |run| pool.install(|| run.wait()))?;
            }
        }
        self.unchanged()
    }

    fn predict(&self, root: usize, drive: impl FnOnce(Do<f64>) -> Result<f64>) -> Verdict {
        let found = drive(self.built.roots[root].predict());
        self.expected[root].judge_predicted(&self.built, found)
    }

    fn train(&self, root: usize, drive: impl FnOnce(Do<f64>) -> Result<f64>) -> Verdict {
        let recorder = Recorder::default();
        let found = drive(self.built.roots[root].train(&recorder));
        self.expected[root].judge_trained(&self.built, found, &recorder.deltas())
    }

    /// One forward, then two backwards.
    fn by_tape(&self, root: usize) -> Verdict {
        let expected = &self.expected[root];
        let tape = match self.built.roots[root].forward().wait() {
            Ok(tape) => tape,
            Err(error) => return expected.judge_predicted(&self.built, Err(error)),
        };
        for _ in 0..2 {
            let recorder = Recorder::default();
            let stepped = tape.backward(Do::now(1.0)).step(&recorder).wait();
            expected.judge_trained(&self.built, stepped.map(|()| *tape.data()), &recorder.deltas())?;
        }
        Ok(())
    }

    /// The optimizer fails at some weight.
    fn refused(&mut self, root: usize, pool: &ThreadPool) -> Verdict {
        let Ok(trained) = &self.expected[root].trained else { return Ok(()) };
        let refusing = Refusing { at: self.rng.random_range(0..4), calls: Arc::default() };
        let is_refused = trained.deltas.len() > refusing.at;
        match pool.install(|| self.built.roots[root].train(&refusing).wait()) {
            Err(error) if is_refused && error.to_string().contains("planned refusal") => Ok(()),
            Ok(_) if trained.deltas.is_empty() => Ok(()),
            Ok(_) if !is_refused => {
                // the step succeeded and changed the weights: restore them
                for (weight, value) in self.built.weights.iter().zip(&self.weights) {
                    weight.set(value, &self.ledger);
                }
                Ok(())
            }
            found => Err(format!("a step that is refused at weight {} ended with {found:?}", refusing.at)),
        }
    }

    /// Concurrent passes over the same layers, on threads of the pool and on others.
    fn at_once(&mut self, pool: &ThreadPool) -> Verdict {
        let jobs: Vec<(usize, u8)> = (0..self.rng.random_range(2..5))
            .map(|_| (self.rng.random_range(0..self.expected.len()), self.rng.random_range(0..4)))
            .collect();
        let this = &*self;
        let verdicts: Vec<Verdict> = if self.rng.clone().random() {
            pool.install(|| {
                use rayon::prelude::*;
                jobs.par_iter().map(|&job| this.job(job)).collect()
            })
        } else {
            std::thread::scope(|scope| {
                let threads: Vec<_> = jobs.iter().map(|&job| scope.spawn(move || this.job(job))).collect();
                threads.into_iter().map(|thread| thread.join().expect("a verdict")).collect()
            })
        };
        verdicts.into_iter().collect()
    }

    fn job(&self, (root, what): (usize, u8)) -> Verdict {
        match what {
            0 => self.predict(root, |run| run.wait()),
            1 => self.by_tape(root),
            2 => self.train(root, |run| block_on(run.run())),
            _ => self.train(root, |run| run.wait()),
        }
        .map_err(|wrong| format!("one of several passes: {wrong}"))
    }

    /// Polls a run several times and drops it, here or on another thread. Returns its result if it
    /// has completed before.
    fn cancelled(&mut self, mut run: Run<f64>, pool: &ThreadPool) -> Option<Result<f64>> {
        let (polls, yields) = (self.rng.random_range(0..6), self.rng.random_range(0..20));
        let mut poll = || {
            for _ in 0..polls {
                if let Poll::Ready(found) = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop())) {
                    return Some(found);
                }
                for _ in 0..yields {
                    std::thread::yield_now();
                }
            }
            None
        };
        let found = if self.rng.random_bool(0.3) { pool.install(poll) } else { poll() };
        if found.is_none() {
            self.statistics.cancelled.fetch_add(1, SeqCst);
            match self.rng.random_range(0..3) {
                0 => drop(run),
                1 => pool.install(|| drop(run)),
                _ => pool.spawn(|| drop(run)),
            }
        }
        found
    }

    /// Steps with momentum, alternating with steps that are cancelled or fail.
    fn steps(&mut self, pool: &ThreadPool) -> Verdict {
        const RATE: f64 = 0.02;
        const MOMENTUM: f64 = 0.9;
        let sgd = Sgd::new(RATE).momentum(MOMENTUM);
        let mut velocity: Vec<Value> = self.weights.iter().map(|weight| weight.filled(0.0)).collect();
        for _ in 0..self.rng.random_range(1..4) {
            let root = self.rng.random_range(0..self.expected.len());
            let train = self.built.roots[root].train(&sgd);
            let found = match self.rng.random() {
                true => self.cancelled(train.run(), pool),
                false => Some(pool.install(|| train.wait())),
            };
            let expected = Expected::of(&self.graph, &self.weights, self.graph.roots[root]);
            if let Some(found) = found {
                match (&expected.trained, found) {
                    (Ok(trained), Ok(found)) => {
                        same("value", &trained.value.elements(), &[found])?;
                        for (weight, delta) in &trained.deltas {
                            self.weights[*weight].step(&mut velocity[*weight], delta, RATE, MOMENTUM);
                        }
                    }
                    (_, found) => expected.judge_trained(&self.built, found, &[])?,
                }
            }
            self.unchanged()?;
        }
        Ok(())
    }

    /// Checks that every weight has the value of the reference.
    fn unchanged(&self) -> Verdict {
        let pairs = self.weights.iter().zip(self.built.weights.iter());
        pairs.into_iter().try_for_each(|(weight, built)| same("weight", &weight.elements(), &built.elements()))
    }
}

/// An optimizer that updates weights, but fails at a given one.
#[derive(Clone)]
struct Refusing {
    at: usize,
    calls: Arc<AtomicUsize>,
}

impl Optimizer for Refusing {
    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        match chunk {
            Chunk::F32 { values, .. } => values.fill(7.0),
            Chunk::F64 { values, .. } => values.fill(7.0),
        }
        match self.calls.fetch_add(1, SeqCst) {
            call if call < self.at => Ok(()),
            call if call % 2 == 0 => Err(Error::invalid("planned refusal")),
            _ => panic!("planned refusal"),
        }
    }
}
