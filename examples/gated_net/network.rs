//! The network: a gate scores two experts for each image; only the better one is built.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dl::nd::{MoveModule, device::Device, init, ops::*};
use dl::prelude::*;
use rand_chacha::ChaCha8Rng;

use crate::digits::PIXELS;

const HIDDEN: usize = 64;
const CLASSES: usize = 10;

/// The factor of the load-balancing term.
const BALANCE: f32 = 0.5;

/// A fully connected layer: `x · weight + bias`.
#[derive(Clone, Module)]
struct Dense {
    /// `[in, out]`
    weight: NdWeight,
    /// `[out]`
    bias: NdWeight<Ix1>,
}

impl Dense {
    fn new(weight: Nd) -> Self {
        let outputs = weight.shape()[1];
        Dense { weight: Weight::new(weight), bias: Weight::new(init::zeros([outputs])) }
    }

    fn of(&self, x: &NdLayer) -> NdLayer {
        x.matmul(&self.weight) + &self.bias
    }
}

/// A sub-network that classifies digits.
#[derive(Clone)]
pub(crate) struct Expert {
    hidden: Dense,
    output: Dense,
    built: Arc<AtomicUsize>,
}

impl Expert {
    fn new(random: &mut ChaCha8Rng) -> Self {
        Expert {
            hidden: Dense::new(init::he_normal([PIXELS, HIDDEN], random)),
            output: Dense::new(init::xavier_uniform([HIDDEN, CLASSES], random)),
            built: Arc::default(),
        }
    }

    /// Logits `[1, classes]` of an image `[1, pixels]`.
    fn of(&self, image: &NdLayer) -> NdLayer {
        self.built.fetch_add(1, Ordering::Relaxed);
        logits(&self.hidden, &self.output, image)
    }

    /// The number of times this expert was built, which is the number of times the other was
    /// skipped.
    pub(crate) fn times_built(&self) -> usize {
        self.built.load(Ordering::Relaxed)
    }
}

/// A gate and two experts.
#[derive(Clone)]
pub(crate) struct Net {
    gate: Dense,
    /// Selected if the left score is higher.
    pub(crate) left: Expert,
    /// Selected otherwise.
    pub(crate) right: Expert,
}

impl Net {
    /// A network with random initial weights.
    pub(crate) fn new(random: &mut ChaCha8Rng) -> Self {
        Net {
            gate: Dense::new(init::xavier_uniform([PIXELS, 2], random)),
            left: Expert::new(random),
            right: Expert::new(random),
        }
    }

    /// Moves all weights to a device.
    #[allow(dead_code, reason = "tests and benchmarks share this file")]
    pub(crate) fn move_to(&self, device: &Arc<dyn Device>) -> dl::Result<()> {
        let experts = [&self.left, &self.right].map(|expert| (expert.hidden.clone(), expert.output.clone()));
        (self.gate.clone(), experts).move_to(device)
    }

    /// The gate's scores of the two experts for this image.
    fn gate(&self, image: &NdLayer) -> (Layer<f32>, Layer<f32>) {
        scores(&self.gate, image)
    }
}

/// The output of an expert. It decides nothing, so a call of it is one operation.
#[differentiable(compiled)]
fn logits(hidden: &Dense, output: &Dense, image: &NdLayer) -> NdLayer {
    output.of(&hidden.of(image).relu())
}

/// Two numbers with a sum of 1.
#[differentiable(compiled)]
fn scores(gate: &Dense, image: &NdLayer) -> (Layer<f32>, Layer<f32>) {
    let scores = gate.of(image).softmax(1);
    (scores.at([0, 0]), scores.at([0, 1]))
}

/// Logits `[1, classes]` of an image `[1, pixels]`.
pub(crate) fn gated_net(input: &NdLayer, net: &Net) -> NdLayer {
    better_expert(input, net.gate(input), net)
}

/// The output of the expert with the higher score; only this expert is built. The score is a factor
/// of the output, so that the gate receives a gradient.
#[differentiable]
fn better_expert(input: &NdLayer, scores: (Layer<f32>, Layer<f32>), net: &Net) -> NdLayer {
    let (left, right) = !scores; // extracts both values, in parallel
    if left > right {
        scores.0 * net.left.of(input) // only this branch is built
    } else {
        scores.1 * net.right.of(input)
    }
}

/// The loss of a mini-batch: the mean cross-entropy of its images, each with a graph of its own,
/// plus the load-balancing term.
///
/// The load-balancing term is the squared coefficient of variation of the experts' importance,
/// which is the sum of their scores over the batch (Shazeer et al. 2017, *Outrageously Large Neural
/// Networks*, section 4). For two experts it is `((left − right) / (left + right))²`; since the
/// scores sum to 1, the denominator is the batch size.
pub(crate) fn batch_loss(images: &[NdLayer], labels: &[usize], net: &Net) -> Layer<f32> {
    let size = images.len() as f32;
    let scores: Vec<_> = images.iter().map(|image| net.gate(image)).collect();
    let preference: Layer<f32> = scores.iter().map(|(left, right)| left - right).sum();
    let errors: Layer<f32> = images
        .iter()
        .zip(scores)
        .zip(labels)
        .map(|((image, scores), &label)| better_expert(image, scores, net).cross_entropy([label]))
        .sum();
    errors / size + BALANCE * (preference / size).square()
}
