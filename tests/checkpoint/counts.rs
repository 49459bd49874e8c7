//! Number of evaluations per operation, with checkpoint boundaries.

use super::nets::{Log, Row, numbers, on_threads, weights};
use dl::prelude::*;
use dl::{At, Deltas, Primitive, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn input() -> Layer<Row> {
    Layer::constant(numbers(3, 4, 7))
}

/// a·w₀ → b → | c·w₁ → d → | e·w₂
fn chain(log: &Log, w: &[Weight<Row>]) -> Layer<f64> {
    let b = log.of("b", &log.of("a", &input().matmul(&w[0]))).checkpoint();
    let d = log.of("d", &log.of("c", &b.matmul(&w[1]))).checkpoint();
    log.of("e", &d.matmul(&w[2])).square().sum()
}

#[test]
fn segment_is_evaluated_twice_and_marked_layer_once() {
    for threads in [1, 2, 4] {
        let (log, w) = (Log::default(), weights(3));
        let loss = chain(&log, &w);
        for _ in 0..3 {
            log.clear();
            on_threads(threads, || loss.train(&Sgd::new(0.1)).wait()).unwrap();
            assert_eq!(["a", "b", "c", "d", "e"].map(|name| log.count(name)), [2, 1, 2, 1, 1]);
            assert_eq!(["a-", "b-", "c-", "d-", "e-"].map(|name| log.count(name)), [1; 5]);
        }
    }
}

#[test]
fn predict_and_forward_do_not_rematerialize() {
    let (log, w) = (Log::default(), weights(3));
    chain(&log, &w).predict().wait().unwrap();
    assert_eq!(["a", "b", "c", "d", "e"].map(|name| log.count(name)), [1; 5]);
    log.clear();
    let tape = chain(&log, &w).forward().wait().unwrap();
    assert_eq!(["a", "b", "c", "d", "e"].map(|name| log.count(name)), [1; 5]);
    // each backward rematerializes the segments
    for _ in 0..2 {
        log.clear();
        tape.backward(Do::now(1.0)).step(&Sgd::new(0.1)).wait().unwrap();
        assert_eq!(["a", "b", "c", "d", "e"].map(|name| log.count(name)), [1, 0, 1, 0, 0]);
    }
}

#[test]
fn value_used_outside_of_segment_is_not_rematerialized() {
    let (log, w) = (Log::default(), weights(4));
    let skip = log.of("skip", &log.of("below", &input().matmul(&w[0])));
    let b = log.of("b", &log.of("a", &skip.matmul(&w[1]))).checkpoint();
    let d = log.of("d", &(b.matmul(&w[2]) + &skip)).tanh().checkpoint();
    let held = log.of("held", &d.matmul(&w[3]));
    let loss = log.of("e", &held).exp().checkpoint().sum();
    drop(skip);
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(["below", "skip", "a", "b", "d", "held", "e"].map(|name| log.count(name)), [2, 1, 2, 1, 2, 1, 2]);
    drop(held);
}

#[test]
fn segment_without_trained_weight_is_not_rematerialized() {
    let (log, w) = (Log::default(), weights(3));
    let loss = chain(&log, &w);
    w[0].freeze();
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(["a", "b", "c", "d", "e"].map(|name| log.count(name)), [1, 1, 2, 1, 1]);
    w[1].freeze();
    log.clear();
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(["a", "b", "c", "d", "e"].map(|name| log.count(name)), [1; 5]);
    assert_eq!(["a-", "b-", "c-", "d-", "e-"].map(|name| log.count(name)), [0, 0, 0, 0, 1]);
}

/// A bang in the middle of a segment: its operands are retained, and operations that only the bang
/// needs are not rematerialized.
#[test]
fn bang_in_segment_retains_its_operands() {
    let (log, w) = (Log::default(), weights(2));
    let bodies = Arc::new(AtomicUsize::new(0));
    let loss = {
        let (log, w, bodies) = (log.clone(), w.clone(), bodies.clone());
        Layer::dynamic(move || {
            let (log, w, bodies) = (log.clone(), w.clone(), bodies.clone());
            async move {
                bodies.fetch_add(1, SeqCst);
                let a = log.of("a", &input().matmul(&w[0]));
                let sum = log.of("b", &a).sum().extract().await?;
                let c = if sum > 1e9 { log.of("never", &a) } else { log.of("c", &a) };
                Ok(log.of("d", &c.matmul(&w[1])).checkpoint().square().sum())
            }
        })
    };
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(["a", "b", "c", "d", "never"].map(|name| log.count(name)), [1, 1, 2, 1, 0]);
    assert_eq!(bodies.load(SeqCst), 1, "a body must not run again");
}

/// Activations between boundaries are discarded after the forward pass, and again after the
/// backward pass.
#[test]
fn pass_retains_only_values_at_checkpoints() {
    const LAYERS: usize = 64;
    let peak = |every: usize| {
        let w = weights(LAYERS);
        let mut h = Layer::constant(numbers(2_000, 4, 1));
        for (number, w) in w.iter().enumerate() {
            h = (h.matmul(w) + 0.1).tanh();
            if number % every == every - 1 {
                h = h.checkpoint();
            }
        }
        let loss = h.square().sum();
        let (_, counters) = loss.train(&Sgd::new(0.1)).counted().wait().unwrap();
        counters.bytes_peak as f64 / (2_000 * 4 * size_of::<f64>()) as f64
    };
    let (plain, marked) = (peak(usize::MAX), peak(8));
    assert!(plain > 3.0 * LAYERS as f64, "{plain} values without checkpoints");
    assert!(marked < 8.0 * 2.0 + 8.0 * 6.0, "{marked} values with checkpoints, {plain} without");
}

/// The sum of three numbers.
struct Three;

impl Primitive for Three {
    type Operands = (Layer<f64>, Layer<f64>, Layer<f64>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "three"
    }

    fn value(&self, (a, b, c): (&f64, &f64, &f64)) -> Result<f64> {
        Ok(a + b + c)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()), Some(at.delta.clone()), Some(at.delta.clone()))
    }
}

/// A long pass reuses slots, so that later nodes have the slots of earlier ones.
#[test]
fn checkpoint_stamped_by_another_pass_is_released_with_its_consumer() {
    let numbers = Do::from_fn(|| async {
        let zero = Layer::constant(0.0);
        for i in 0..1_000 {
            let boundary = Layer::constant(f64::from(i)).checkpoint();
            let sum = Layer::apply(Three, (boundary, zero.clone(), zero.clone()));
            let tape = sum.forward().wait()?;
            assert_eq!(sum.extract().await?, f64::from(i));
            drop(tape);
        }
        Ok(())
    });
    numbers.wait().unwrap();
}
