//! A mixture of experts for handwritten digits: a gate routes each image to one of six small
//! networks; the others are not evaluated for it.
//!
//! ```sh
//! cargo run --release --example mixture_of_experts            # --seed --epochs --experts --balance
//! ```
//!
//! Without the load-balancing loss a few experts would take all images: an expert that is better at
//! first is selected more often, and is trained more. Results do not depend on the number of
//! threads.

#[path = "common/digits.rs"]
mod digits;

use clap::Parser;
use dl::nd::init;
use dl::nn::{Block, Linear, Mixture, MixtureOfExperts};
use dl::prelude::*;
use rand::Rng;
use rand::seq::SliceRandom;

const BATCH: usize = 32;
/// The accuracy is checked after at least this number of epochs.
const CHECKED_EPOCHS: u32 = 20;
const WIDTH: usize = 128;
const HIDDEN: usize = 32;

#[derive(Parser)]
struct Args {
    /// Seed of the split, the shuffles and the initial weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many times to go through the training images.
    #[arg(long, default_value_t = 25)]
    epochs: u32,

    /// The number of experts.
    #[arg(long, default_value_t = 6)]
    experts: usize,

    /// The factor of the load-balancing loss.
    #[arg(long, default_value_t = 0.3)]
    balance: f32,
}

#[derive(Clone, Module)]
struct Expert {
    hidden: Linear,
    output: Linear,
}

impl Expert {
    fn new(rng: &mut impl Rng) -> dl::Result<Self> {
        Ok(Expert { hidden: Linear::new(WIDTH, HIDDEN, rng)?, output: Linear::new(HIDDEN, WIDTH, rng)? })
    }
}

impl Block for Expert {
    /// `[batch, width] → [batch, width]`.
    fn of(&self, features: &NdLayer) -> NdLayer {
        self.output.of(self.hidden.of(features).relu())
    }
}

#[derive(Clone, Module)]
struct Net {
    features: Linear,
    mixture: MixtureOfExperts<Expert>,
    output: Linear,
}

impl Net {
    fn new(experts: usize, rng: &mut impl Rng) -> dl::Result<Self> {
        let features = Linear::new(64, WIDTH, rng)?;
        let experts = (0..experts).map(|_| Expert::new(rng)).collect::<dl::Result<_>>()?;
        Ok(Net {
            features,
            mixture: MixtureOfExperts::new(experts, WIDTH, 1, rng)?,
            output: Linear::new(WIDTH, 10, rng)?,
        })
    }

    /// The logits of images `[batch, 64]`, and the outputs of the mixture.
    fn of(&self, images: &Nd) -> (NdLayer, Mixture) {
        let features = self.features.of(images).relu();
        let mixed = self.mixture.mix(&features);
        (self.output.of(features + &mixed.output), mixed)
    }
}

fn main() -> dl::Result<()> {
    let Args { seed, epochs, experts, balance } = Args::parse();
    let all = digits::tensors()?;
    let mut rng = init::rng(seed);
    let mut order = digits::shuffled(all.1.len(), &mut rng);
    let (test, train) = order.split_at_mut(all.1.len() / 5);
    let (test_images, test_labels) = digits::select(&all, test);

    let net = Net::new(experts, &mut rng)?;
    println!("{}", net.summary());

    let (logits, tested) = net.of(&test_images);
    let right = logits.argmax(1).equal(&test_labels).to_floats::<f32>().mean();
    let adam = Adam::new(0.003);
    for epoch in 1..=epochs {
        // Smaller steps in the last third.
        let adam = if 3 * epoch > 2 * epochs { adam.at_learning_rate(0.0005) } else { adam.clone() };
        train.shuffle(&mut rng);
        let mut sum = 0.0;
        for of in train.chunks(BATCH) {
            let (images, labels) = digits::select(&all, of);
            let (logits, mixed) = net.of(&images);
            let loss = logits.cross_entropy(labels) + balance * mixed.balance;
            sum += loss.train(&adam).wait()? * of.len() as f32;
        }
        let accuracy = right.predict().wait()?;
        println!("epoch {epoch:2}  loss {:.4}  test accuracy {accuracy:.4}", sum / train.len() as f32);
    }

    let (accuracy, shares) = (right.predict().wait()?, tested.shares.predict().wait()?);
    println!();
    for (expert, share) in shares.view().iter().enumerate() {
        println!("expert {expert} evaluated {:4.1} % of the test images", 100.0 * share);
    }
    println!("test_accuracy={accuracy:.4}");
    let used = shares.view().iter().filter(|&&share| share > 0.0).count();
    println!("experts_used={used}");
    if epochs >= CHECKED_EPOCHS {
        assert!(accuracy > 0.95, "the test accuracy is too low");
        assert!(balance == 0.0 || used == experts, "some experts are never selected");
    }
    Ok(())
}
