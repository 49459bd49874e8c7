//! Promise 6: a million operations are built, run, trained and dropped on a small stack.

use super::support::Counted;
use dl::{Differentiable, Layer, Sgd, Weight};

const MILLION: usize = 1_000_000;

fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap().join().unwrap();
}

#[test]
fn million_scalar_operations_do_not_overflow_stack() {
    on_a_small_stack(|| {
        let w = Weight::new(1.0_f64);
        let mut y = w.layer();
        for _ in 0..MILLION {
            y = y + 1.0;
        }
        assert_eq!(y.predict().wait().unwrap(), 1_000_001.0);
        assert_eq!(y.train(&Sgd::new(1.0)).wait().unwrap(), 1_000_001.0);
        assert_eq!(w.value(), 0.0);
    });
}

#[test]
fn long_chain_of_operations_does_not_overflow_stack() {
    on_a_small_stack(|| {
        let w = Weight::new(1.0);
        let step = Counted::new(1.0);
        let mut y = w.layer();
        for _ in 0..200_000 {
            y = step.of(&y);
        }
        y.train(&Sgd::new(1.0)).wait().unwrap();
        assert_eq!((w.value(), step.counts()), (0.0, (200_000, 200_000)));
    });
}

#[test]
fn nested_dynamic_layers_do_not_overflow_stack() {
    on_a_small_stack(|| {
        let w = Weight::new(1.0);
        let mut y = w.layer();
        for _ in 0..100_000 {
            let below = y;
            y = Layer::dynamic(move || {
                let below = below.clone();
                async move { Ok(below) }
            });
        }
        y.train(&Sgd::new(1.0)).wait().unwrap();
        assert_eq!(w.value(), 0.0);
    });
}

#[test]
fn million_term_sum_does_not_overflow_stack() {
    on_a_small_stack(|| {
        let w = Weight::new(1.0_f64);
        let y: Layer<f64> = (0..MILLION).map(|_| w.layer()).sum();
        assert_eq!(y.train(&Sgd::new(1e-6)).wait().unwrap(), 1e6);
        assert_eq!(w.value(), 0.0);
    });
}

#[test]
fn million_bangs_in_loop_do_not_overflow_stack() {
    on_a_small_stack(|| {
        let w = Weight::new(1.0);
        let held = w.clone();
        let y = Layer::dynamic(move || {
            let w = held.clone();
            async move {
                let mut sum = 0.0;
                while sum < MILLION as f64 {
                    sum += (&w * 1.0).extract().await?;
                }
                Ok(&w * sum)
            }
        });
        assert_eq!(y.train(&Sgd::new(1e-6)).wait().unwrap(), 1e6);
        assert_eq!(w.value(), 0.0);
    });
}
