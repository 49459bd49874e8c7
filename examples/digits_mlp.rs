//! A multilayer perceptron for handwritten digits: `Sequential`, dropout, data augmentation, and
//! `AdamW` with a one-cycle schedule.
//!
//! ```sh
//! cargo run --release --example digits_mlp --features data,dist,terminal,plot       # --seeds 1,2,3 --quick --out curves.png
//! cargo run --release --example digits_mlp --features data,dist,terminal,plot -- --ranks 4
//! ```
//!
//! A `Trainer` runs the training loop, with progress, Ctrl-C and a plot. `char_gru` has a
//! hand-written loop.
//!
//! A fifth of the images is held out. The seed determines the split, the initial weights, the order
//! and the augmentation. The accuracy does not depend on the number of threads, nor on the number of
//! ranks: with `--ranks`, a step is on four batches of a fourth of the size, which the ranks share.

#[path = "common/digits.rs"]
mod digits;

use clap::Parser;
use dl::data::{Dataset, InMemory, Loader};
use dl::dist::Cluster;
use dl::nd::{CrossEntropy, init};
use dl::nn::{Activation, Dropout, Linear, Sequential};
use dl::prelude::*;
use dl::schedule::OneCycle;
use dl::train::{Interrupt, Outcome, Progress, Record, Stopped, Trainer, plot::Curves};
use rand::Rng;
use std::path::PathBuf;

const BATCH: usize = 32;
/// The parts of a batch on several ranks. They decide the bits, and not the number of ranks.
const PARTS: usize = 4;
const WIDTH: usize = 128;
/// The name of the metric: the fraction of held-out images classified correctly.
const ACCURACY: &str = "test accuracy";
/// The side of an image.
const SIDE: i32 = 8;

#[derive(Parser)]
struct Args {
    /// One network is trained for each of these seeds.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,

    /// One seed and a few epochs, for a smoke test.
    #[arg(long)]
    quick: bool,

    /// Trains on so many ranks, which are threads here.
    #[arg(long)]
    ranks: Option<usize>,

    /// The output file of the curves of the first seed (SVG or PNG).
    #[arg(long, default_value = "out/digits_mlp.png")]
    out: PathBuf,
}

/// `[batch, 64] → [batch, 10]`.
fn network(rng: &mut impl Rng) -> dl::Result<Sequential> {
    Ok(Sequential::new()
        .then(Linear::new(digits::PIXELS, WIDTH, rng)?)
        .then(Activation::Relu)
        .then(Dropout { p: 0.2 })
        .then(Linear::new(WIDTH, WIDTH, rng)?)
        .then(Activation::Relu)
        .then(Dropout { p: 0.2 })
        .then(Linear::new(WIDTH, 10, rng)?))
}

/// Shifts every second image at random by at most one pixel in each direction; new pixels are 0.
fn moved(image: Nd<f32, Ix1>, rng: &mut impl Rng) -> dl::Result<Nd<f32, Ix1>> {
    if rng.random_bool(0.5) {
        return Ok(image);
    }
    let (down, right) = (rng.random_range(-1..=1), rng.random_range(-1..=1));
    let pixel = |place: i32| {
        let (row, column) = (place / SIDE - down, place % SIDE - right);
        let inside = (0..SIDE).contains(&row) && (0..SIDE).contains(&column);
        if inside { image[(SIDE * row + column) as usize] } else { 0.0 }
    };
    Nd::from_vec([digits::PIXELS], (0..SIDE * SIDE).map(pixel).collect())
}

/// Trains a network with this seed, in one process or on a cluster, and evaluates it on the held-out
/// images after each epoch.
fn run(seed: u64, epochs: u64, interrupt: &Interrupt, cluster: Option<&Cluster>) -> dl::Result<Outcome> {
    let parts = if cluster.is_some() { PARTS } else { 1 };
    let (images, labels) = digits::tensors()?;
    let [train, test] = InMemory(images).zip(InMemory(labels.into_vec()))?.split([0.8, 0.2], seed)?;
    let (test_images, test_labels) = test.all()?;
    let train = train.augment(|(image, label), rng| Ok((moved(image, rng)?, label)));
    let loader = Loader::new(train, BATCH / parts).shuffle(true).seed(seed).prefetch(4);

    let net = network(&mut init::rng(seed))?;
    let accuracy = net.of(&test_images).argmax(1).equal(&test_labels).to_floats::<f32>().mean();
    let smoothed = CrossEntropy::new().label_smoothing(0.05);
    let steps = epochs * loader.epoch(0)?.len().div_ceil(parts) as u64;
    let optimizer = AdamW::new(OneCycle::new(0.005, steps)).weight_decay(0.05);
    let trainer = Trainer::new(&optimizer, epochs)
        .seed(seed as u32)
        .validate(|| Ok([(ACCURACY, accuracy.predict().wait()?)]))
        .callback(Progress::new(format!("seed {seed}")))
        .interrupt(interrupt)
        .refuse_non_finite();
    let trainer = match cluster {
        Some(cluster) => trainer.across(cluster, PARTS as u64, &net),
        None => trainer,
    };
    trainer.run(|epoch| loader.epoch(epoch), |(images, labels)| net.of(&images).cross_entropy_with(&labels, &smoothed))
}

fn main() -> dl::Result<()> {
    let Args { seeds, quick, ranks, out } = Args::parse();
    let (seeds, epochs, least) = if quick { (vec![1], 4, 0.9) } else { (seeds, 30, 0.975) };
    let interrupt = Interrupt::on_ctrl_c()?;
    let mut accuracies = Vec::new();
    for &seed in &seeds {
        let Outcome { stopped, epochs, .. } = match ranks {
            // Rank 0 shows its progress; all ranks have the same outcome.
            Some(ranks) => {
                Cluster::run_on(ranks, |cluster| run(seed, epochs, &interrupt, Some(cluster)))?.swap_remove(0)
            }
            None => run(seed, epochs, &interrupt, None)?,
        };
        if accuracies.is_empty() && !epochs.is_empty() {
            Curves::of(&epochs).title(format!("digits, seed {seed}")).save(&out)?;
        }
        if stopped == Stopped::Interrupted {
            return Ok(());
        }
        let number = |record: &Record, name| record.get(name).unwrap_or(f64::NAN);
        let last = epochs.len() as u64;
        for record in epochs.iter().filter(|record| (record.epoch + 1) % 5 == 0 || record.epoch + 1 == last) {
            let (epoch, loss, accuracy) = (record.epoch + 1, number(record, "loss"), number(record, ACCURACY));
            println!("seed {seed}  epoch {epoch:2}  loss {loss:.4}  test accuracy {accuracy:.4}");
        }
        accuracies.extend(epochs.last().map(|record| number(record, ACCURACY)));
    }
    for (seed, accuracy) in seeds.iter().zip(&accuracies) {
        println!("seed {seed}: {accuracy:.4}");
    }
    let mean = accuracies.iter().sum::<f64>() / seeds.len() as f64;
    println!("test_accuracy={mean:.4}");
    assert!(mean >= least, "the networks have learned less than they should: {mean:.4} is below {least}");
    Ok(())
}
