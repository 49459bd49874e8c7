//! The state of a pass: noise from a seed, a running mean in a buffer, evaluation on a snapshot
//! while training continues, and counters.
//!
//! ```sh
//! cargo run --release --example pass_state
//! ```
//!
//! A line is fitted to points. In training the inputs are perturbed by random numbers and their
//! mean is tracked; evaluation is deterministic.

use dl::prelude::*;
use dl::{At, Deltas, Primitive, Result};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// x ↦ x + noise, which depends on the seed that the layer draws.
struct Blur;

impl Primitive for Blur {
    type Operands = (Layer<f64>, Layer<Seed>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "blur"
    }

    fn value(&self, (x, seed): (&f64, &Seed)) -> Result<f64> {
        Ok(x + ChaCha8Rng::seed_from_u64(seed.get()).random_range(-0.1..0.1))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()), None)
    }
}

#[derive(Clone)]
struct Line {
    slope: Weight<f64>,
    offset: Weight<f64>,
    /// The running mean of the training inputs.
    mean: Buffer<f64>,
}

impl Line {
    fn of(&self, x: f64) -> Layer<f64> {
        let net = self.clone();
        let x = Layer::dynamic(move || {
            let mean = net.mean.clone();
            async move {
                let x = Layer::constant(x);
                Ok(match Mode::current() {
                    Some(Mode::Train) => {
                        let blurred = Layer::apply(Blur, (x, Seed::draw()));
                        blurred.updating(&mean, mean.layer() * 0.99 + &blurred * 0.01)
                    }
                    _ => x,
                })
            }
        });
        x * &self.slope + &self.offset
    }
}

fn main() -> Result<()> {
    let line = Line { slope: Weight::new(0.0), offset: Weight::new(0.0), mean: Buffer::new(0.0) };
    let sgd = Sgd::new(0.02);
    let mut before = None;
    for step in 0..3_000_u64 {
        let x = (step % 7) as f64 - 2.0;
        let error = line.of(x) - (3.0 * x + 1.0);
        (&error * &error).train(&sgd).seed(step).wait()?;
        if step == 50 {
            before = Some(Snapshot::take());
        }
    }
    let (value, counters) = line.of(10.0).predict().counted().wait()?;
    println!("3 · 10 + 1 ≈ {value:.2}, with {} layers, {} evaluations", counters.nodes, counters.evaluations);
    if let Some(early) = before {
        println!("after 50 steps it was {:.2}", line.of(10.0).predict().on(&early).wait()?);
    }
    println!("the mean input was {:.2}", line.mean.value());
    assert!((value - 31.0).abs() < 0.5 && (line.mean.value() - 1.0).abs() < 0.5);
    Ok(())
}
