//! The network: a gate selects one of four experts for each image. An expert that no image of a
//! batch selects is never built.

use dl::nd::{concat, init};
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
    /// `[n, 64] → [n, experts]`.
    pub gate: Linear,
    /// The experts; one is evaluated for each image.
    pub experts: Vec<Expert>,
}

/// A small classifier.
#[derive(Clone, Debug, Module)]
pub struct Expert {
    /// `[n, 64] → [n, hidden]`.
    pub hidden: Linear,
    /// `[n, hidden] → [n, classes]`.
    pub output: Linear,
}

impl Expert {
    fn new(rng: &mut impl Rng) -> dl::Result<Self> {
        Ok(Expert { hidden: Linear::new(PIXELS, HIDDEN, rng)?, output: Linear::new(HIDDEN, CLASSES, rng)? })
    }

    fn of(&self, images: &NdLayer) -> NdLayer {
        self.output.of(self.hidden.of(images).relu())
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

    /// The softmax weights of the experts for these images, `[n, experts]`.
    pub fn gates(&self, images: &NdLayer) -> NdLayer {
        self.gate.of(images).softmax(1)
    }

    /// The answers to these images, computed together. The answer to an image has the same bits in
    /// every batch: a product computes a row in the same way beside any number of others, so
    /// an image that is alone is computed beside a copy of itself.
    pub fn classify(&self, images: &[Image]) -> Do<Vec<Answer>> {
        let count = images.len();
        let mut pixels = images.concat();
        if count == 1 {
            pixels.extend(images[0]);
        }
        let images = match Nd::from_vec([count.max(2), PIXELS], pixels) {
            Ok(images) => images.layer(),
            Err(error) => return Do::fail(error),
        };
        let gates = self.gates(&images);
        let values = Do::predict((logits(&images, &gates, self).softmax(1), gates));
        values.flat_map(move |(probabilities, gates)| match Answer::all(&probabilities, &gates) {
            Ok(mut answers) => {
                answers.truncate(count);
                Do::now(answers)
            }
            Err(error) => Do::fail(error),
        })
    }
}

/// The logits `[n, classes]` of the expert with the highest gate value of each image. The images of
/// an expert are one batch, and an expert without images is never built. The gate value is a factor,
/// so that the gate receives a gradient.
#[differentiable]
pub fn logits(images: &NdLayer, gates: &NdLayer, net: &Net) -> NdLayer {
    let selected = highest_of_rows(&!gates)?; // extracts the gate values
    let mut outputs = Vec::new();
    let (mut places, mut place) = (vec![0; selected.len()], 0);
    for (number, expert) in net.experts.iter().enumerate() {
        let mut rows: Vec<usize> = (0..selected.len()).filter(|&row| selected[row] == number).collect();
        if rows.is_empty() {
            continue; // no image selected it
        }
        rows.iter().enumerate().for_each(|(offset, &row)| places[row] = place + offset);
        if rows.len() == 1 {
            rows.push(rows[0]); // see `Net::classify`
        }
        place += rows.len();
        outputs.push(expert.of(&images.index_select(0, rows)));
    }
    let gate = gates.gather(1, Nd::from_vec([selected.len(), 1], selected)?);
    gate * concat(0, outputs).index_select(0, places)
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
    /// From the probabilities `[n, classes]` and the gate values `[n, experts]`.
    fn all(probabilities: &Nd, gates: &Nd) -> dl::Result<Vec<Self>> {
        let (digits, experts) = (highest_of_rows(probabilities)?, highest_of_rows(gates)?);
        let (probabilities, gates) = (probabilities.view(), gates.view());
        let rows = probabilities.rows().into_iter().zip(gates.rows()).zip(digits.into_iter().zip(experts));
        let answers = rows.map(|((probabilities, gate), (digit, expert))| Answer {
            digit,
            probabilities: probabilities.to_vec(),
            expert,
            gate: gate.to_vec(),
        });
        Ok(answers.collect())
    }
}

/// The index of the largest number of each row.
///
/// # Errors
/// If a number is not finite, which means that a weight is not.
fn highest_of_rows(numbers: &Nd) -> dl::Result<Vec<usize>> {
    let numbers = numbers.view();
    if !numbers.iter().all(|number| number.is_finite()) {
        return Err(Error::not_finite("the output of the network is not finite: are its weights damaged?"));
    }
    let highest = numbers.rows().into_iter().map(|row| {
        let highest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        highest.map_or(0, |(place, _)| place)
    });
    Ok(highest.collect())
}
