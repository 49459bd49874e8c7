//! Failures during rematerialization, and concurrent changes of weights.

use super::nets::{Log, Row, bits, numbers, on_threads, weights};
use dl::prelude::*;
use dl::{At, Primitive, Result};
use futures::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// x ↦ x; runs a function at its second evaluation.
#[derive(Clone)]
struct Second<F>(Arc<AtomicUsize>, F);

impl<F: Fn() -> Result<()> + Clone + Send + Sync + 'static> Primitive for Second<F> {
    type Operands = (Layer<Row>,);
    type Output = Row;

    fn name(&self) -> &'static str {
        "second"
    }

    fn value(&self, (x,): (&Row,)) -> Result<Row> {
        if self.0.fetch_add(1, SeqCst) == 1 {
            (self.1)()?;
        }
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Row>>,) {
        (Some(at.delta.clone()),)
    }
}

/// Three segments. An operation in the middle one runs `f` when it is rematerialized.
fn net(w: &[Weight<Row>], f: impl Fn() -> Result<()> + Clone + Send + Sync + 'static) -> Layer<f64> {
    let a = Layer::constant(numbers(3, 4, 8)).matmul(&w[0]).tanh().checkpoint();
    let b = Layer::apply(Second(Arc::default(), f), (a.matmul(&w[1]),));
    let c = (b.tanh() + 0.5).tanh().checkpoint();
    c.matmul(&w[2]).tanh().checkpoint().square().sum()
}

fn values(w: &[Weight<Row>]) -> Vec<Row> {
    w.iter().map(Weight::value).collect()
}

#[test]
fn error_in_rematerialization_changes_nothing() {
    for threads in [1, 2] {
        let w = weights(3);
        let before = values(&w);
        let loss = net(&w, || Err(Error::invalid("not again")));
        let error = on_threads(threads, || loss.train(&Sgd::new(0.1)).wait()).unwrap_err().to_string();
        assert!(error.contains("not again") && error.contains("second") && error.contains("failures.rs"), "{error}");
        assert_eq!(values(&w), before);
        loss.train(&Sgd::new(0.1)).wait().unwrap(); // the third evaluation, and the fourth
        assert_ne!(values(&w), before);
    }
}

#[test]
fn panic_in_rematerialization_changes_nothing() {
    let w = weights(3);
    let before = values(&w);
    let error = net(&w, || panic!("never again")).train(&Adam::new(0.1)).wait().unwrap_err().to_string();
    assert!(error.contains("never again") && error.contains("failures.rs"), "{error}");
    assert_eq!(values(&w), before);
}

#[test]
fn step_dropped_in_rematerialization_changes_nothing() {
    let w = weights(3);
    let before = values(&w);
    let (entered, at) = std::sync::mpsc::channel();
    let (leave, gate) = std::sync::mpsc::channel::<()>();
    let (entered, gate) = (Arc::new(std::sync::Mutex::new(entered)), Arc::new(std::sync::Mutex::new(gate)));
    let loss = net(&w, move || {
        entered.lock().unwrap().send(()).unwrap();
        let _ = gate.lock().unwrap().recv();
        Ok(())
    });
    let mut step = loss.train(&Sgd::new(0.1)).run();
    // with this executor, rayon workers do the work
    let watcher = std::thread::spawn(move || {
        at.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    });
    while !watcher.is_finished() {
        assert!((&mut step).now_or_never().is_none());
        std::thread::yield_now();
    }
    drop(step);
    drop(leave);
    assert_eq!(values(&w), before);
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_ne!(values(&w), before);
}

/// Rematerialization must read the same weights and buffers as the first evaluation.
#[test]
fn rematerialization_after_concurrent_commit_reads_old_weights() {
    let run = |disturb: bool| {
        let w = weights(3);
        let outside = w.clone();
        let loss = net(&w, move || {
            if disturb {
                for w in &outside {
                    w.set(numbers(4, 4, 1_000));
                }
            }
            Ok(())
        });
        let taken = Arc::new(std::sync::Mutex::new(Vec::new()));
        let optimizer = Taken(taken.clone());
        loss.train(&optimizer).wait().unwrap();
        let mut taken = taken.lock().unwrap().clone();
        taken.sort_unstable();
        taken
    };
    assert_eq!(run(true), run(false));
}

/// An optimizer that records deltas and changes nothing.
#[derive(Clone)]
struct Taken(Arc<std::sync::Mutex<Vec<u64>>>);

impl Optimizer for Taken {
    fn step(&self, chunk: dl::Chunk<'_>, _: u64) -> Result<()> {
        if let dl::Chunk::F64 { deltas, .. } = chunk {
            self.0.lock().unwrap().extend(deltas.iter().map(|delta| delta.to_bits()));
        }
        Ok(())
    }
}

/// Two concurrent backwards of one tape: each rematerializes the segments or shares the values of
/// the other.
#[test]
fn concurrent_backwards_of_one_tape_agree() {
    let alone = bits(4, &Sgd::new(0.0), |w| segments(&Log::default(), w));
    for _ in 0..20 {
        let (log, w) = (Log::default(), weights(4));
        let tape = segments(&log, &w).forward().wait().unwrap();
        let steps = [Taken(Arc::default()), Taken(Arc::default())];
        std::thread::scope(|scope| {
            for step in &steps {
                scope.spawn(|| tape.backward(Do::now(1.0)).step(step).wait().unwrap());
            }
        });
        let [first, second] = steps.map(|step| step.0.lock().unwrap().clone());
        assert_eq!(first, second);
        assert!(log.count("x") <= 3 * 4, "{}", log.count("x"));
    }
    assert_eq!(bits(4, &Sgd::new(0.0), |w| segments(&Log::default(), w)), alone);
}

fn segments(log: &Log, w: &[Weight<Row>]) -> Layer<f64> {
    let mut h = Layer::constant(numbers(3, 4, 8));
    for w in w {
        h = log.of("x", &h.matmul(w)).tanh().checkpoint();
    }
    h.square().sum()
}
