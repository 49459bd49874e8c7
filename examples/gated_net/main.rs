//! The gated network of *Monadic Deep Learning* learns handwritten digits.
//!
//! For each image a gate network scores two expert networks. The expert with the higher score is
//! evaluated; the other is never built. Every image of a mini-batch has a graph of its own, whose
//! shape depends on the scores; the graphs are evaluated in parallel.
//!
//! ```sh
//! cargo run --release --example gated_net -- --epochs 30 --seed 1
//! ```

#![forbid(unsafe_code)]

mod args;
mod curve;
#[path = "../common/device.rs"]
mod device;
#[path = "../common/digits.rs"]
mod digits;
mod interrupt;
mod network;
mod report;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use args::Args;
use clap::Parser;
use digits::{Digits, PIXELS};
use dl::nd::device::Device;
use dl::prelude::*;
use interrupt::Interrupt;
use network::{Net, batch_loss, gated_net};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use report::{Epoch, Report, Summary};

const BATCH: usize = 16;
const MOMENTUM: f64 = 0.9;
const LEARNING_RATE: f64 = 0.1;
/// The accuracy is checked after at least this number of epochs.
const CHECKED_EPOCHS: u32 = 20;

/// The learning rate in an epoch, counted from 0: a tenth in the last third.
fn learning_rate(epoch: u32, epochs: u32) -> f64 {
    if epoch < epochs * 2 / 3 { LEARNING_RATE } else { LEARNING_RATE / 10.0 }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn Error + Send + Sync>;

fn run(args: &Args) -> Result<(), Failure> {
    // The threads that execute nodes are those of this pool; the closure runs on one of them.
    rayon::ThreadPoolBuilder::new().num_threads(args.threads.get()).build()?.install(|| train(args))
}

fn train(args: &Args) -> Result<(), Failure> {
    let digits = Digits::read(&args.data_path())?;
    let (training, test) = digits.split(args.seed);
    let device = device::open(args.device)?;
    let (training_images, test_images) = (layers(&training, device.as_ref())?, layers(&test, device.as_ref())?);
    let interrupt = Interrupt::listen()?;

    let mut random = ChaCha8Rng::seed_from_u64(args.seed);
    let net = Net::new(&mut random);
    if let Some(device) = &device {
        net.move_to(device)?;
    }
    let sgd = Sgd::new(LEARNING_RATE).momentum(MOMENTUM);
    let mut report = Report::new(args);

    for epoch in 0..args.epochs {
        let sgd = sgd.at_learning_rate(learning_rate(epoch, args.epochs)).refuse_non_finite();
        let mut loss = 0.0;
        for batch in digits::shuffled(training.count(), &mut random).chunks(BATCH) {
            let images: Vec<_> = batch.iter().map(|&image| training_images[image].clone()).collect();
            let labels: Vec<_> = batch.iter().map(|&image| training.labels[image]).collect();
            loss += batch_loss(&images, &labels, &net).train(&sgd).wait()? * batch.len() as f32;
            if interrupt.requested() {
                break;
            }
        }
        if interrupt.requested() {
            break;
        }
        report.epoch(
            epoch + 1,
            &Epoch {
                loss: loss / training.count() as f32,
                train_accuracy: accuracy(&training_images, &training.labels, &net)?,
                test_accuracy: accuracy(&test_images, &test.labels, &net)?,
            },
        );
    }

    let built = || [net.left.times_built(), net.right.times_built()];
    let before = built();
    let test_accuracy = accuracy(&test_images, &test.labels, &net)?;
    let after = built();
    let drawn = curve::draw(&args.out, report.epochs());
    let summary = Summary {
        test_accuracy,
        expert_images: [after[0] - before[0], after[1] - before[1]],
        skipped_subnets: after.iter().sum(),
        interrupted: interrupt.requested(),
    };
    report.finish(&summary);
    drawn.map_err(|error| format!("the curve could not be written to {}: {error}", args.out.display()))?;
    if args.epochs >= CHECKED_EPOCHS && !summary.interrupted {
        summary.check()?;
    }
    Ok(())
}

/// Each image as a layer `[1, pixels]`.
fn layers(digits: &Digits, device: Option<&Arc<dyn Device>>) -> dl::Result<Vec<NdLayer>> {
    let layer = |image: &[f32; PIXELS]| {
        let image = Nd::from_vec([1, PIXELS], image.to_vec())?;
        Ok(device.map_or(Ok(image.clone()), |device| image.to(device))?.layer())
    };
    digits.images.iter().map(layer).collect()
}

/// The fraction of images with the highest logit at their label.
fn accuracy(images: &[NdLayer], labels: &[usize], net: &Net) -> dl::Result<f32> {
    let logits = Do::join(images.iter().map(|image| gated_net(image, net).predict())).wait()?;
    let logits: Vec<Nd> = logits.iter().map(Nd::to_host).collect::<dl::Result<_>>()?;
    let right = logits.iter().zip(labels).filter(|(logits, label)| highest(logits) == **label).count();
    Ok(right as f32 / labels.len() as f32)
}

fn highest(logits: &Nd) -> usize {
    let numbers: Vec<f32> = logits.view().iter().copied().collect();
    (0..numbers.len()).max_by(|&a, &b| numbers[a].total_cmp(&numbers[b])).expect("there are classes")
}
