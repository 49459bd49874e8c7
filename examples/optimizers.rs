//! All optimizers on the handwritten digits, with a schedule, clipping and averages of the weights;
//! and a run that is interrupted and resumed.
//!
//! ```sh
//! cargo run --release --example optimizers             # a number behind `--` for more or fewer epochs than 10
//! ```
//!
//! The learning rates come from a coarse search: the table shows how the optimizers are used, not
//! which is best.

#[path = "common/digits.rs"]
mod digits;

use digits::Batch;
use dl::nd::init;
use dl::prelude::*;
use dl::schedule::{Cosine, Linear, Schedule};
use dl::{Ema, WeightHandle};
use rand::seq::SliceRandom;
use std::error::Error;
use std::sync::Arc;

const BATCH: usize = 32;
const HIDDEN: usize = 32;

type Labels = Nd<usize, Ix1>;

/// A network with one hidden layer.
struct Net {
    hidden: (NdWeight, NdWeight<Ix1>),
    output: (NdWeight, NdWeight<Ix1>),
}

impl Net {
    fn new() -> Self {
        let mut rng = init::rng(1);
        let mut layer =
            |from, to| (Weight::new(init::he_normal([from, to], &mut rng)), Weight::new(Nd::full([to], 0.0)));
        Net { hidden: layer(64, HIDDEN), output: layer(HIDDEN, 10) }
    }

    /// `[batch, 64] → [batch, 10]`.
    fn logits(&self, images: &Nd) -> NdLayer {
        let hidden = (images.matmul(&self.hidden.0) + &self.hidden.1).relu();
        hidden.matmul(&self.output.0) + &self.output.1
    }

    fn accuracy(&self, images: &Nd, labels: &Labels) -> Layer<f32> {
        self.logits(images).argmax(1).equal(labels).to_floats::<f32>().mean()
    }

    fn matrices(&self) -> [&NdWeight; 2] {
        [&self.hidden.0, &self.output.0]
    }

    fn named(&self) -> [(&'static str, WeightHandle); 4] {
        let (hidden, output) = (&self.hidden, &self.output);
        [
            ("hidden.weight", (&hidden.0).into()),
            ("hidden.bias", (&hidden.1).into()),
            ("output.weight", (&output.0).into()),
            ("output.bias", (&output.1).into()),
        ]
    }
}

type AnyOptimizer = Arc<dyn Optimizer>;

/// Warm-up over the first tenth of the steps, times a cosine decay to zero.
fn schedule(rate: f64, steps: u64) -> impl Schedule + 'static {
    let warm_up = steps / 10 + 1;
    Linear::new(0.1, 1.0, warm_up).times(Cosine::new(rate, steps))
}

fn optimizers(net: &Net, steps: u64) -> Vec<(&'static str, AnyOptimizer)> {
    let rate = |rate| schedule(rate, steps);
    // Biases have no weight decay.
    let groups = Groups::new(AdamW::new(rate(0.01)).weight_decay(0.0)).with(net.matrices(), AdamW::new(rate(0.01)));
    vec![
        ("Sgd", Arc::new(Sgd::new(rate(0.3)))),
        ("Sgd, momentum", Arc::new(Sgd::new(rate(0.1)).momentum(0.9))),
        ("Sgd, Nesterov, L2", Arc::new(Sgd::new(rate(0.1)).momentum(0.9).nesterov().weight_decay(1e-4))),
        ("Adagrad", Arc::new(Adagrad::new(rate(0.05)))),
        ("RmsProp", Arc::new(RmsProp::new(rate(0.003)))),
        ("Adadelta", Arc::new(Adadelta::new(rate(3.0)))),
        ("Adam", Arc::new(Adam::new(rate(0.01)))),
        ("AdamW, groups", Arc::new(groups)),
        ("NAdam", Arc::new(NAdam::new(rate(0.01)))),
        ("RAdam", Arc::new(RAdam::new(rate(0.03)))),
        ("Lion", Arc::new(Lion::new(rate(0.003)).weight_decay(0.1))),
    ]
}

/// Trains on these batches. Returns the mean loss.
fn train(net: &Net, optimizer: &Ema<AnyOptimizer>, batches: &[Batch]) -> dl::Result<f32> {
    let optimizer = optimizer.clone().clip_norm(2.0).refuse_non_finite();
    let mut sum = 0.0;
    for (images, labels) in batches {
        sum += net.logits(images).cross_entropy(labels).train(&optimizer).wait()?;
    }
    Ok(sum / batches.len() as f32)
}

fn main() -> Result<(), Box<dyn Error>> {
    let epochs: usize = std::env::args().nth(1).map_or(Ok(10), |epochs| epochs.parse())?;
    let all = digits::tensors()?;
    let mut rng = init::rng(2);
    let mut order = digits::shuffled(all.1.len(), &mut rng);
    let (test, training) = order.split_at_mut(all.1.len() / 5);
    let (test_images, test_labels) = digits::select(&all, test);
    let mut epoch = || {
        training.shuffle(&mut rng);
        training.chunks(BATCH).map(|of| digits::select(&all, of)).collect()
    };
    let epochs: Vec<Vec<Batch>> = (0..epochs).map(|_| epoch()).collect();
    let steps = epochs.iter().map(Vec::len).sum::<usize>() as u64;

    println!("{:20} {:>10} {:>14} {:>12}", "optimizer", "final loss", "test accuracy", "of averages");
    let count = optimizers(&Net::new(), steps).len();
    for which in 0..count {
        let net = Net::new();
        let (name, optimizer) = optimizers(&net, steps).swap_remove(which);
        let optimizer = optimizer.ema(0.98);
        let mut loss = f32::NAN;
        for batches in &epochs {
            loss = train(&net, &optimizer, batches)?;
        }
        let accuracy = net.accuracy(&test_images, &test_labels).predict();
        let (last, averaged) = (accuracy.wait()?, accuracy.on(&optimizer.snapshot()?).wait()?);
        println!("{name:20} {loss:10.4} {last:14.4} {averaged:12.4}");
        assert!(epochs.len() < 10 || last > 0.93, "{name} has learned less than it should");
    }
    check_resume(&epochs, steps)
}

/// Saves the state of an optimizer halfway, loads it into another one, and checks that both
/// continue with bit-identical results.
fn check_resume(epochs: &[Vec<Batch>], steps: u64) -> Result<(), Box<dyn Error>> {
    let make = || (Arc::new(NAdam::new(schedule(0.01, steps))) as AnyOptimizer).ema(0.98);
    let (net, optimizer) = (Net::new(), make());
    let (before, after) = epochs.split_at(epochs.len() / 2);
    for batches in before {
        train(&net, &optimizer, batches)?;
    }
    let state = optimizer.state(&net.named())?;

    let (again, resumed) = (Net::new(), make());
    for (new, old) in [(&again.hidden, &net.hidden), (&again.output, &net.output)] {
        new.0.set(old.0.value());
        new.1.set(old.1.value());
    }
    resumed.load_state(&state, &again.named())?;
    for batches in after {
        train(&net, &optimizer, batches)?;
        train(&again, &resumed, batches)?;
    }
    for (new, old) in again.matrices().into_iter().zip(net.matrices()) {
        assert_eq!(new.value(), old.value());
    }
    println!("the resumed run is bit-identical to the uninterrupted one");
    Ok(())
}
