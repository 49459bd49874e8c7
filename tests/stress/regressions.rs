//! Minimized failures that random graphs have found.

use dl::{Differentiable, Do, Layer, Sgd, SideEffects, Tape, Weight};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// `x + x`, with a hand-written backward that propagates the delta twice.
fn twice(x: &Layer<f64>, backwards: &Arc<AtomicUsize>) -> Layer<f64> {
    let backwards = backwards.clone();
    let tape = x.forward().zip(x.forward()).map(move |(left, right)| {
        let backwards = backwards.clone();
        Tape::new(left.data() + right.data(), move |delta: Do<f64>| {
            backwards.fetch_add(1, SeqCst);
            left.backward(delta.clone()) + right.backward(delta)
        })
    });
    Layer::from(tape)
}

#[test]
#[ignore = "each of two backwards of one layer is a walk of its own, so n levels cost 2ⁿ"]
fn diamond_of_tapes_takes_linear_time() {
    let backwards = Arc::<AtomicUsize>::default();
    let diamond = (0..12).fold(Weight::new(1.0).layer(), |x, _| twice(&x, &backwards));
    assert_eq!(diamond.train(&Sgd::new(0.1)).wait().unwrap(), 4096.0);
    assert_eq!(backwards.load(SeqCst), 12);
}

/// The duration of a training step over this number of parallel tapes.
fn side_by_side(tapes: usize) -> Duration {
    let w = Weight::new(1.0);
    let one = || {
        let tape = w
            .forward()
            .map(|inner| Tape::new(*inner.data(), move |delta: Do<f64>| -> SideEffects { inner.backward(delta) }));
        Layer::<f64>::from(tape)
    };
    let sum: Layer<f64> = (0..tapes).map(|_| one()).sum();
    let start = Instant::now();
    sum.train(&Sgd::new(0.1)).wait().unwrap();
    start.elapsed()
}

#[test]
fn parallel_tapes_take_linear_time() {
    let (few, many) = (side_by_side(2_000), side_by_side(16_000));
    assert!(many < few * 20, "eight times as many tapes: {few:?}, {many:?}");
}
