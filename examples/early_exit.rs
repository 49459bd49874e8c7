//! Early exit: a convolutional network for handwritten digits has an exit after each of its three
//! stages. An image takes the first exit with a confidence above a threshold.
//!
//! ```sh
//! cargo run --release --example early_exit --features data,plot            # --seed --epochs --threshold --quick --out curve.svg
//! ```
//!
//! Most digits are easy. The `if` of `classify` extracts the confidence of an exit; for an image
//! that exits there, the later stages are neither computed nor built. The threshold can be chosen
//! after training, because all exits are trained together (BranchyNet: Teerapittayanon et al.,
//! 2016).
//!
//! At the end the example prints how many images take each exit, and plots accuracy against cost,
//! in multiplications per image, for several thresholds. At the chosen threshold it must keep 99 %
//! of the accuracy of the whole network at 20 % of the cost. For the seeds 1, 2, 3 the accuracies
//! with exits and of the whole network are 0.992 and 0.992, 0.989 and 0.986, 0.978 and 0.978, at
//! 0.125, 0.100 and 0.117 of the cost.

#[path = "common/curve.rs"]
mod curve;
#[path = "common/digits.rs"]
mod digits;

use clap::Parser;
use dl::data::{Dataset, InMemory, Loader};
use dl::nd::init;
use dl::nn::{Conv2d, Linear};
use dl::prelude::*;
use dl::schedule::OneCycle;
use dl::train::Trainer;
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::path::PathBuf;

const SIDE: usize = 8;
const BATCH: usize = 32;
/// A threshold above every confidence: images pass through the whole network.
const NEVER: f32 = 2.0;

#[derive(Parser)]
struct Args {
    /// Seed of the split, the shuffles and the initial weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many times to go through the training images.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,

    /// The probability of the answer above which an image exits.
    #[arg(long, default_value_t = 0.9)]
    threshold: f32,

    /// A small network and a few epochs, for a smoke test.
    #[arg(long)]
    quick: bool,

    /// The output file of the curve (SVG).
    #[arg(long, default_value = "out/early_exit.svg")]
    out: PathBuf,
}

#[derive(Clone, Module)]
struct Stage {
    convolution: Conv2d,
    exit: Linear,
}

impl Stage {
    /// Convolution and pooling, which halves the sides: `[batch, channels, side / 2, side / 2]`.
    fn features(&self, images: &NdLayer<Ix4>) -> NdLayer<Ix4> {
        self.convolution.of(images).relu().max_pool2d(Pool::new(2))
    }

    /// `[batch, 10]`.
    fn logits(&self, features: &NdLayer<Ix4>) -> NdLayer {
        self.exit.of(features.flatten_rows())
    }
}

#[derive(Clone, Module)]
struct Net {
    stages: Vec<Stage>,
}

impl Net {
    /// A network with one stage for each of these numbers of channels.
    fn new(channels: [usize; 3], rng: &mut ChaCha8Rng) -> dl::Result<Self> {
        let (mut inputs, mut side, mut stages) = (1, SIDE, Vec::new());
        for channels in channels {
            side /= 2;
            stages.push(Stage {
                convolution: Conv2d::new(inputs, channels, 3, Conv::new().padding(1), rng)?,
                exit: Linear::new(channels * side * side, 10, rng)?,
            });
            inputs = channels;
        }
        Ok(Net { stages })
    }

    /// The number of multiplications per image up to each exit.
    fn costs(&self) -> Vec<usize> {
        let (mut side, mut sum) = (SIDE, 0);
        let up_to = |stage: &Stage| {
            sum += stage.convolution.weight.value().len() * side * side + stage.exit.weight.value().len();
            side /= 2;
            sum
        };
        self.stages.iter().map(up_to).collect()
    }

    /// The sum of the losses of all exits.
    fn loss(&self, images: &Nd, labels: &Nd<usize, Ix1>) -> Layer<f32> {
        let mut features = pixels(images);
        let mut loss = Layer::constant(0.0);
        for stage in &self.stages {
            features = stage.features(&features);
            loss = loss + stage.logits(&features).cross_entropy(labels);
        }
        loss
    }

    /// The logits of an image `[1, 64]` and the index of its exit: the first with a confidence
    /// above the threshold, or the last.
    #[differentiable]
    fn classify(&self, image: &Nd, threshold: f32) -> (NdLayer, Do<usize>) {
        let mut features = pixels(image);
        let mut exit = 0;
        loop {
            features = self.stages[exit].features(&features);
            let logits = self.stages[exit].logits(&features);
            let confidence = logits.softmax(1).amax();
            if exit + 1 == self.stages.len() || !confidence > threshold {
                return (logits, Do::now(exit)); // the later stages are never built
            }
            exit += 1;
        }
    }

    /// The fraction of images classified correctly, and how many of them take each exit.
    fn evaluate(&self, images: &[Nd], labels: &[usize], threshold: f32) -> dl::Result<(f64, Vec<usize>)> {
        let classified = images.iter().map(|image| {
            let (logits, exit) = self.classify(image, threshold);
            logits.argmax(1).predict().zip(exit)
        });
        let (mut right, mut exits) = (0, vec![0; self.stages.len()]);
        for ((answer, exit), label) in Do::join(classified).wait()?.into_iter().zip(labels) {
            right += usize::from(answer[0] == *label);
            exits[exit] += 1;
        }
        Ok((right as f64 / labels.len() as f64, exits))
    }
}

fn pixels(images: &Nd) -> NdLayer<Ix4> {
    images.reshape([images.shape()[0], 1, SIDE, SIDE])
}

fn main() -> Result<(), Box<dyn Error>> {
    let Args { seed, epochs, threshold, quick, out } = Args::parse();
    let (channels, epochs, rate) = if quick { ([4, 8, 16], 4, 0.02) } else { ([8, 32, 128], epochs, 0.005) };
    let (images, labels) = digits::tensors()?;
    let [train, test] = InMemory(images).zip(InMemory(labels.into_vec()))?.split([0.8, 0.2], seed)?;
    let loader = Loader::new(train, BATCH).shuffle(true).seed(seed);
    let (test_images, test_labels) = test.all()?;
    let row = |index| test_images.index_select(0, &[index]).predict().wait();
    let test_images = (0..if quick { 100 } else { test_labels.len() }).map(row).collect::<dl::Result<Vec<_>>>()?;
    let test_labels = &test_labels.into_vec()[..test_images.len()];

    let net = Net::new(channels, &mut init::rng(seed))?;
    let adam = Adam::new(OneCycle::new(rate, epochs * loader.epoch(0)?.len() as u64));
    let outcome =
        Trainer::new(&adam, epochs).run(|epoch| loader.epoch(epoch), |(images, labels)| net.loss(&images, &labels))?;
    for record in outcome.epochs {
        println!("epoch {:2}  {record}", record.epoch + 1);
    }

    let costs = net.costs();
    let cost = |exits: &[usize]| {
        let sum: usize = exits.iter().zip(&costs).map(|(images, cost)| images * cost).sum();
        sum as f64 / test_images.len() as f64
    };
    println!("\nthreshold  accuracy  multiplications  leave by exit 1, 2, 3");
    let mut point = |threshold| -> dl::Result<(f64, f64)> {
        let (accuracy, exits) = net.evaluate(&test_images, test_labels, threshold)?;
        println!("{threshold:9.3}  {accuracy:8.4}  {:15.0}  {exits:?}", cost(&exits));
        Ok((cost(&exits), accuracy))
    };
    let thresholds = [0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, NEVER];
    let curve = thresholds.into_iter().map(&mut point).collect::<dl::Result<Vec<_>>>()?;
    println!("chosen:");
    let chosen = point(threshold)?;
    let thousands: Vec<_> = curve.iter().map(|point| (point.0 / 1000.0, point.1)).collect();
    curve::draw("multiplications for an image, in thousands", &thousands, (chosen.0 / 1000.0, chosen.1), &out)?;
    println!("drawn: {}\n", out.display());

    let whole = curve[curve.len() - 1];
    let (kept, paid) = (chosen.1 / whole.1, chosen.0 / whole.0);
    println!("accuracy={:.4}", chosen.1);
    println!("kept_accuracy={kept:.4}");
    println!("paid_cost={paid:.4}");
    let (least, most) = if quick { (0.9, 0.75) } else { (0.99, 0.2) };
    assert!(whole.1 >= if quick { 0.7 } else { 0.97 }, "the network has learned less than it should: {:.4}", whole.1);
    assert!(kept >= least && paid <= most, "{kept:.4} of the accuracy for {paid:.4} of the cost");
    Ok(())
}
