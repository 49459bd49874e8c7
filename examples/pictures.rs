//! Visualisation of passes: a gated network learns handwritten digits for a few steps under a
//! recorder. The example draws the graph of one digit and of one training step, and writes the cost
//! of each line and a trace of the threads.
//!
//! ```sh
//! cargo run --release --example pictures --features view            # --quick --out out
//! ```
//!
//! It writes `path.svg` (the picture in the README, `docs/pictures/gated_net.svg`), `path.dot`,
//! `step.svg`, `costs.json` and `trace.json` (for <https://ui.perfetto.dev>), and prints the cost
//! table.

#[path = "common/digits.rs"]
mod digits;

use clap::Parser;
use digits::{Digits, PIXELS};
use dl::nd::init;
use dl::prelude::*;
use dl::record::Recorder;
use dl::view::{Costs, Graph, save_chrome_trace};
use rand::Rng;
use std::path::{Path, PathBuf};

const HIDDEN: usize = 32;
const BATCH: usize = 8;

#[derive(Parser)]
struct Args {
    /// A few steps, for a smoke test.
    #[arg(long)]
    quick: bool,

    /// The output folder.
    #[arg(long, default_value = "out")]
    out: PathBuf,
}

#[derive(Clone, Module)]
struct Expert {
    hidden: NdWeight,
    output: NdWeight,
}

#[derive(Clone, Module)]
struct Net {
    gate: NdWeight,
    left: Expert,
    right: Expert,
}

#[differentiable]
impl Expert {
    /// Logits `[1, 10]` of an image `[1, 64]`.
    fn of(&self, image: &NdLayer) -> NdLayer {
        image.matmul(&self.hidden).relu().matmul(&self.output)
    }
}

#[differentiable]
impl Net {
    /// The scores of the experts for this image.
    fn gate(&self, image: &NdLayer) -> (Layer<f32>, Layer<f32>) {
        let scores = image.matmul(&self.gate).softmax(1);
        (scores.at([0, 0]), scores.at([0, 1]))
    }
}

/// The output of the expert with the higher score; only this expert is built.
#[differentiable]
fn gated_net(input: &NdLayer, net: &Net) -> NdLayer {
    let scores = net.gate(input);
    let (left, right) = !scores;
    if left > right { scores.0 * net.left.of(input) } else { scores.1 * net.right.of(input) }
}

impl Net {
    fn new(rng: &mut impl Rng) -> Net {
        let mut expert = || Expert {
            hidden: Weight::new(init::he_normal([PIXELS, HIDDEN], rng)),
            output: Weight::new(init::xavier_uniform([HIDDEN, 10], rng)),
        };
        let (left, right) = (expert(), expert());
        Net { gate: Weight::new(init::xavier_uniform([PIXELS, 2], rng)), left, right }
    }
}

fn batch_loss(images: &[NdLayer], labels: &[usize], net: &Net) -> Layer<f32> {
    let each = images.iter().zip(labels).map(|(image, &label)| gated_net(image, net).cross_entropy([label]));
    each.sum::<Layer<f32>>() / images.len() as f32
}

fn main() -> dl::Result<()> {
    let Args { quick, out } = Args::parse();
    let steps = if quick { 5 } else { 150 };
    let digits = Digits::read(Path::new(digits::FILE)).map_err(Error::other)?;
    let image = |pixels: &[f32; PIXELS]| Ok(Nd::from_vec([1, PIXELS], pixels.to_vec())?.layer());
    let images = digits.images.iter().take(steps * BATCH).map(image).collect::<dl::Result<Vec<NdLayer>>>()?;

    let net = Net::new(&mut init::rng(1));
    let (recorder, sgd) = (Recorder::new(), Sgd::new(0.2));
    let mut losses = Vec::new();
    for (images, labels) in images.chunks(BATCH).zip(digits.labels.chunks(BATCH)) {
        losses.push(batch_loss(images, labels, &net).train(&sgd).recorded(&recorder).wait()?);
    }
    let recording = recorder.take();

    let path = gated_net(&images[0], &net).graph().wait()?.named(&net).title("The path of one digit");
    path.save(out.join("path.svg"))?;
    path.save(out.join("path.dot"))?;
    let step = Graph::of(&recording.passes[0])
        .title("A step of training, on eight digits")
        .backward(true)
        .named(&net)
        .at_most(24);
    step.save(out.join("step.svg"))?;
    let costs = Costs::of(&recording);
    std::fs::write(out.join("costs.json"), costs.to_json()).map_err(Error::other)?;
    save_chrome_trace(&recording, out.join("trace.json"))?;
    println!("{costs}");
    println!("written: path.svg, path.dot, step.svg, costs.json, trace.json in {}", out.display());

    // One arm is taken for each image, and both arms are named in the picture.
    let taken: usize = costs.branches.iter().flat_map(|branch| &branch.arms).map(|(_, taken)| taken).sum();
    assert_eq!((costs.passes, costs.branches.len(), taken), (steps, 1, steps * BATCH));
    let svg = path.svg();
    assert!(svg.contains("left &gt; right") && svg.contains("scores.0") && svg.contains("scores.1"));
    assert!(svg.contains(">gate<") && (svg.contains(">left.hidden<") || svg.contains(">right.hidden<")));
    assert!(costs.lines.iter().any(|line| line.evaluations == steps * BATCH && !line.forward.is_zero()));
    let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
    let (first, last) = (mean(&losses[..5]), mean(&losses[losses.len() - 5..]));
    assert!(quick || last < 0.6 * first, "the network has not learned: a loss of {first}, and then of {last}");
    Ok(())
}
