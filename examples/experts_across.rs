//! Sixty-four experts on four ranks, which read handwritten digits. No rank may hold all of their
//! weights: a limit, which this program sets and checks, stands for the memory of a machine.
//!
//! ```sh
//! cargo run --release --features dist --example experts_across -- --ranks 4   # --seed --epochs --quick
//! DL_RANKS=4 cargo run --release --features dist --example experts_across     # the same
//! ```
//!
//! The features and the gate are on every rank. Each expert is on one rank. A gate chooses an expert
//! for each image, and its rank computes it, forward and backward; ranks whose experts are not chosen
//! get no call. The losses are those of one process to the last bit.

#[path = "common/digits.rs"]
mod digits;

use clap::Parser;
use dl::dist::{Cluster, Placed, remote};
use dl::nd::init;
use dl::nn::{Block, Linear, Mixture, MixtureOfExperts};
use dl::prelude::*;
use rand::seq::SliceRandom;

const EXPERTS: usize = 64;
const WIDTH: usize = 32;
const HIDDEN: usize = 24;
/// The most numbers in the weights of a rank.
const LIMIT: usize = 40_000;
const BATCH: usize = 64;
/// The parts of a batch. They decide the bits, and not the number of ranks.
const PARTS: usize = 8;

#[derive(Parser)]
struct Args {
    /// Seed of the split, the shuffles and the initial weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many times to go through the training images.
    #[arg(long, default_value_t = 20)]
    epochs: u32,

    /// The number of ranks, as threads. By default the environment decides.
    #[arg(long)]
    ranks: Option<usize>,

    /// A short run.
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Module)]
struct Expert {
    hidden: Linear,
    output: Linear,
}

impl Expert {
    fn new(number: usize) -> dl::Result<Self> {
        let rng = &mut init::rng(1000 + number as u64);
        Ok(Expert { hidden: Linear::new(WIDTH, HIDDEN, rng)?, output: Linear::new(HIDDEN, WIDTH, rng)? })
    }
}

#[remote]
impl Block for Expert {
    /// `[batch, width] → [batch, width]`.
    fn of(&self, features: &NdLayer) -> NdLayer {
        self.output.of(self.hidden.of(features).relu())
    }
}

#[derive(Clone, Module)]
struct Net {
    features: Linear,
    mixture: MixtureOfExperts<Placed<Expert>>,
    output: Linear,
}

impl Net {
    fn new(cluster: &Cluster, seed: u64) -> dl::Result<Self> {
        let rng = &mut init::rng(seed);
        let features = Linear::new(digits::PIXELS, WIDTH, rng)?;
        let experts = cluster.spread(0..EXPERTS, Expert::new)?; // each is made on its rank only
        let mixture = MixtureOfExperts::new(experts, WIDTH, 1, rng)?;
        Ok(Net { features, mixture, output: Linear::new(WIDTH, 10, rng)? })
    }

    /// The logits of images `[batch, 64]`, and the outputs of the mixture.
    fn of(&self, images: &Nd) -> (NdLayer, Mixture) {
        let features = self.features.of(images).relu();
        let mixed = self.mixture.mix(&features);
        (self.output.of(features + &mixed.output), mixed)
    }
}

/// Checks that this rank holds at most the limit, and that one rank alone could not hold all.
fn check_limit(cluster: &Cluster, net: &Net) -> dl::Result<()> {
    let held: usize = net.weights().iter().filter(|entry| entry.rank().is_none()).map(|entry| entry.len()).sum();
    let all = net.parameters();
    assert!(all > LIMIT, "one rank could hold all {all} numbers");
    if held > LIMIT {
        return Err(Error::invalid(format!(
            "{held} of {all} numbers would be on rank {}, which may hold {LIMIT}: take more ranks, `--ranks 4`",
            cluster.rank()
        )));
    }
    if cluster.rank() == 0 {
        println!("{all} numbers on {} ranks; rank 0 holds {held} and may hold {LIMIT}", cluster.size());
    }
    Ok(())
}

/// Trains on all ranks. Ends with the accuracy on rank 0.
fn train(cluster: &Cluster, args: &Args) -> dl::Result<f32> {
    let net = Net::new(cluster, args.seed)?;
    check_limit(cluster, &net)?;
    cluster.compare(&net)?;

    // Each rank reads all images and takes its parts of each batch.
    let all = digits::tensors()?;
    let mut rng = init::rng(args.seed);
    let mut order = digits::shuffled(all.1.len(), &mut rng);
    let (test, train) = order.split_at_mut(all.1.len() / 5);
    let adam = Adam::new(0.003);
    for epoch in 1..=if args.quick { 3 } else { args.epochs } {
        train.shuffle(&mut rng);
        let mut losses = Vec::new();
        for batch in train.chunks_exact(BATCH) {
            let loss = |part: usize| {
                let (images, labels) = digits::select(&all, &batch[part * BATCH / PARTS..(part + 1) * BATCH / PARTS]);
                let (logits, mixed) = net.of(&images);
                logits.cross_entropy(labels) + 0.1 * mixed.balance
            };
            losses.extend(cluster.mean(PARTS, loss).train(&net, &adam)?);
        }
        if cluster.rank() == 0 {
            println!("epoch {epoch:2}  loss {:.4}", losses.iter().sum::<f32>() / losses.len() as f32);
        }
    }
    if cluster.rank() != 0 {
        return Ok(0.0); // its experts answer until all ranks have ended
    }

    let (images, labels) = digits::select(&all, test);
    let (logits, mixed) = net.of(&images);
    let right = logits.argmax(1).equal(&labels).to_floats::<f32>().mean();
    let (accuracy, shares) = Do::predict((right, mixed.shares)).wait()?;
    let used = shares.view().iter().filter(|&&share| share > 0.0).count();
    let calls: Vec<u64> = (1..cluster.size()).map(|rank| cluster.sent_to(rank).calls).collect();
    println!("{used} of {EXPERTS} experts read the test images; messages of calls to each other rank: {calls:?}");
    Ok(accuracy)
}

fn main() -> dl::Result<()> {
    let args = Args::parse();
    let program = |cluster: &Cluster| train(cluster, &args);
    let accuracy = match args.ranks {
        Some(ranks) => Cluster::run_on(ranks, program)?.swap_remove(0),
        None => Cluster::run(program)?,
    };
    println!("test_accuracy={accuracy:.4}");
    assert!(accuracy > if args.quick { 0.7 } else { 0.95 }, "the test accuracy is too low");
    Ok(())
}
