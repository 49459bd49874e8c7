//! The network: a gate selects one of four experts for each image. The others are never built.

use dl::nd::init;
use dl::nn::Linear;
use dl::prelude::*;
use rand::Rng;
use serde::Serialize;

/// Pixels per image, 8 rows of 8.
pub const PIXELS: usize = 64;
/// The number of digits.
pub const CLASSES: usize = 10;
/// The number of experts.
pub const EXPERTS: usize = 4;
const HIDDEN: usize = 32;

/// The grey values of an image row by row, in `0.0..=1.0`: 0 is paper, 1 is ink.
pub type Image = [f32; PIXELS];

/// A gate and its experts.
#[derive(Clone, Debug, Module)]
pub struct Net {
    /// `[1, 64] → [1, experts]`.
    pub gate: Linear,
    /// The experts; one is evaluated for each image.
    pub experts: Vec<Expert>,
}

/// A small classifier.
#[derive(Clone, Debug, Module)]
pub struct Expert {
    /// `[1, 64] → [1, hidden]`.
    pub hidden: Linear,
    /// `[1, hidden] → [1, classes]`.
    pub output: Linear,
}

impl Expert {
    fn new(rng: &mut impl Rng) -> dl::Result<Self> {
        Ok(Expert { hidden: Linear::new(PIXELS, HIDDEN, rng)?, output: Linear::new(HIDDEN, CLASSES, rng)? })
    }

    fn of(&self, image: &NdLayer) -> NdLayer {
        self.output.of(self.hidden.of(image).relu())
    }
}

impl Net {
    /// A network with random initial weights.
    pub fn new(seed: u64) -> dl::Result<Self> {
        let rng = &mut init::rng(seed);
        let gate = Linear::new(PIXELS, EXPERTS, rng)?;
        let experts = (0..EXPERTS).map(|_| Expert::new(rng)).collect::<dl::Result<_>>()?;
        Ok(Net { gate, experts })
    }

    /// The softmax weights of the experts for this image, `[1, experts]`.
    pub fn gates(&self, image: &NdLayer) -> NdLayer {
        self.gate.of(image).softmax(1)
    }

    /// The probabilities of the digits, `[1, classes]`, and the gate values, `[1, experts]`.
    pub fn classify(&self, image: &Image) -> (NdLayer, NdLayer) {
        let image = Nd::from([*image]).layer();
        let gates = self.gates(&image);
        (logits(&image, &gates, self).softmax(1), gates)
    }
}

/// The logits `[1, classes]` of the expert with the highest gate value; only this expert is built.
/// The gate value is a factor, so that the gate receives a gradient.
#[differentiable]
pub fn logits(image: &NdLayer, gates: &NdLayer, net: &Net) -> NdLayer {
    let expert = highest(&!gates)?; // extracts the gate values
    gates.at([0, expert]) * net.experts[expert].of(image) // the other experts are never built
}

/// The answer to an image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The most likely digit.
    pub digit: usize,
    /// The probability of each digit.
    pub probabilities: Vec<f32>,
    /// The index of the selected expert.
    pub expert: usize,
    /// The gate value of each expert.
    pub gate: Vec<f32>,
}

impl Answer {
    /// From the values of [`Net::classify`].
    ///
    /// # Errors
    /// If a value is not finite, which means that a weight is not.
    pub fn of((probabilities, gates): (Nd, Nd)) -> dl::Result<Self> {
        Ok(Answer {
            digit: highest(&probabilities)?,
            expert: highest(&gates)?,
            probabilities: probabilities.into_vec(),
            gate: gates.into_vec(),
        })
    }
}

/// The index of the largest number.
fn highest(numbers: &Nd) -> dl::Result<usize> {
    let numbers = numbers.view();
    if !numbers.iter().all(|number| number.is_finite()) {
        return Err(Error::not_finite("the output of the network is not finite: are its weights damaged?"));
    }
    let highest = numbers.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    highest.map(|(place, _)| place).ok_or_else(|| Error::invalid("there is nothing to choose from"))
}
