//! Gradient checkpointing: a net of a thousand layers is trained with a checkpoint every 32 layers.
//!
//! ```sh
//! cargo run --release --example checkpointing
//! ```
//!
//! Without checkpoints a pass keeps the values of all layers until the backward pass has used them.
//! With checkpoints it keeps one value in 32 and rematerializes the values in between during the
//! backward pass. The resulting weights are bit-identical.

use dl::nd::ndarray::Array;
use dl::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

const LAYERS: usize = 1_000;
const WIDTH: usize = 32;
const BATCH: usize = 256;
const STEPS: usize = 5;

type Matrix = Nd<f32, Ix2>;

struct Net {
    layers: Vec<(NdWeight, NdWeight<Ix1>)>,
    input: Matrix,
}

impl Net {
    fn new() -> Net {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut normal = |rows, columns, scale: f32| {
            Nd::from(Array::from_shape_simple_fn((rows, columns), || scale * random.random_range(-1.0..1.0)))
        };
        let scale = 1.7 / (WIDTH as f32).sqrt();
        let layers = (0..LAYERS)
            .map(|_| (Weight::new(normal(WIDTH, WIDTH, scale)), Weight::new(Nd::full([WIDTH], 0.0))))
            .collect();
        Net { layers, input: normal(BATCH, WIDTH, 1.0) }
    }

    /// The mean square of the output, with a checkpoint every `every` layers.
    fn loss(&self, every: usize) -> Layer<f32> {
        let mut h = Layer::constant(self.input.clone());
        for (number, (w, b)) in self.layers.iter().enumerate() {
            h = (h.matmul(w) + b).tanh();
            if (number + 1) % every == 0 {
                h = h.checkpoint();
            }
        }
        h.square().mean()
    }

    /// The weights after all steps, the peak memory of a step, and the time of the fastest step.
    fn train(every: usize) -> dl::Result<(Vec<Matrix>, usize, Duration)> {
        let net = Net::new();
        let sgd = Sgd::new(0.1);
        let (mut peak, mut fastest) = (0, Duration::MAX);
        for _ in 0..STEPS {
            let start = Instant::now();
            let (_, counters) = net.loss(every).train(&sgd).counted().wait()?;
            fastest = fastest.min(start.elapsed());
            peak = peak.max(counters.bytes_peak);
        }
        Ok((net.layers.iter().map(|(w, _)| w.value()).collect(), peak, fastest))
    }
}

fn main() -> dl::Result<()> {
    let (plain, checkpointed) = (Net::train(usize::MAX)?, Net::train(32)?);
    assert_eq!(plain.0, checkpointed.0, "the weights are the same to the last bit");
    let report = |name, (_, peak, time): &(_, usize, Duration)| {
        println!("{name:8} {:8.2} MB {:8.2} ms a step", *peak as f64 / 1e6, time.as_secs_f64() * 1e3);
    };
    report("plain", &plain);
    report("marked", &checkpointed);
    println!("memory_ratio={:.3}", checkpointed.1 as f64 / plain.1 as f64);
    println!("time_ratio={:.3}", checkpointed.2.as_secs_f64() / plain.2.as_secs_f64());
    Ok(())
}
