//! What a scalar operation costs: built anew each time, run forward, differentiated, stepped and dropped.
//!
//! ```sh
//! cargo bench --bench scalars
//! ```

use dl::prelude::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The median over some rounds of the time per operation, in nanoseconds.
fn nanoseconds(operations: usize, mut f: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..11)
        .map(|_| {
            let (start, mut times) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_millis(50) {
                f();
                times += 1;
            }
            start.elapsed().as_secs_f64() * 1e9 / (times * operations) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn report(name: &str, operations: usize, f: impl FnMut()) {
    println!("{name:<34} {:>8.1} ns", nanoseconds(operations, f));
}

fn main() {
    let sgd = Sgd::new(1e-9);
    let w = Weight::new(1.00001_f32);
    let chain = || (0..10_000).fold(Layer::constant(1.0_f32), |y, _| y * &w);
    report("chain of 10,000, built and dropped", 10_000, || drop(black_box(chain())));
    report("chain of 10,000, predicted", 10_000, || drop(chain().predict().wait()));
    report("chain of 10,000, trained", 10_000, || drop(chain().train(&sgd).wait()));
    let x = Weight::new(-0.5_f32);
    let diamond = || (0..1_000).fold(x.layer(), |y, _| &y * &y + &y);
    report("diamond of 1,000, trained", 2_000, || drop(diamond().train(&sgd).wait()));

    let weights = [0.1_f32, 0.2, 0.3].map(Weight::new);
    let bias = Weight::new(0.0_f32);
    let sgd = Sgd::new(0.01);
    report("guess_next_number, a training step", 1, || {
        let guess = [1.0_f32, 2.0, 3.0].iter().zip(&weights).map(|(&x, w)| x * w).sum::<Layer<f32>>() + &bias;
        let difference = guess - black_box(4.0);
        drop((&difference * &difference).train(&sgd).wait());
    });
}
