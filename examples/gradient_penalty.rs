//! A loss with the norm of a gradient: a Wasserstein GAN with gradient penalty learns a ring of
//! eight Gaussian clusters.
//!
//! ```sh
//! cargo run --release --example gradient_penalty       # draws target/gradient_penalty.svg
//! ```
//!
//! The gradient of the critic with respect to its *input* should have norm 1 between real and
//! generated points (Gulrajani et al., *Improved training of Wasserstein GANs*, 2017). This
//! gradient is a layer, so its norm is part of the loss, and the training step differentiates it
//! again.

use dl::nd::{init, ndarray::Array2};
use dl::prelude::*;
use dl::schedule::Linear;
use plotters::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::f32::consts::TAU;

type Points = Nd<f32, Ix2>;

const BATCH: usize = 128;
const STEPS: usize = 1500;
/// Critic steps for each generator step.
const CRITIC_STEPS: usize = 3;
const PENALTY: f32 = 0.1;
const SPOTS: usize = 8;
/// The standard deviation of a cluster.
const SPREAD: f64 = 0.05;

/// A network with two hidden layers.
struct Mlp {
    weights: [NdWeight; 3],
    biases: [NdWeight<Ix1>; 3],
}

impl Mlp {
    fn new(sizes: [usize; 4], rng: &mut impl Rng) -> Self {
        Mlp {
            weights: [0, 1, 2].map(|i| Weight::new(init::he_normal([sizes[i], sizes[i + 1]], rng))),
            biases: [1, 2, 3].map(|i| Weight::new(Nd::full([sizes[i]], 0.0))),
        }
    }

    /// `[batch, in] → [batch, out]`.
    fn of(&self, x: impl NdExpression<Ix2>) -> NdLayer {
        let affine = |x: NdLayer, i: usize| x.matmul(&self.weights[i]) + &self.biases[i];
        let hidden = affine(x.into_layer(), 0).relu();
        affine(affine(hidden, 1).relu(), 2)
    }

    fn freeze(&self) {
        self.weights.iter().for_each(Weight::freeze);
        self.biases.iter().for_each(Weight::freeze);
    }

    fn unfreeze(&self) {
        self.weights.iter().for_each(Weight::unfreeze);
        self.biases.iter().for_each(Weight::unfreeze);
    }
}

/// The norm of the critic's gradient at each of these points, `[batch, 2] → [batch]`.
fn slope(critic: &Mlp, points: &NdLayer) -> NdLayer<Ix1> {
    // Scores are independent, so the gradient of their sum has the gradient of each in its row.
    let slopes = critic.of(points).gradient(points);
    (slopes.square().sum_axis(1) + 1e-12).sqrt()
}

/// The critic's loss: the negated difference of its mean scores for real and generated points, plus
/// the gradient penalty at the points in between; and the difference itself.
fn critic_loss(critic: &Mlp, real: &Points, drawn: &Points, between: Points) -> (Layer<f32>, Layer<f32>) {
    let distance = critic.of(real).mean() - critic.of(drawn).mean();
    let penalty = (slope(critic, &between.into_layer()) - 1.0).square().mean();
    (PENALTY * penalty - &distance, distance)
}

/// Points around eight cluster centres on a ring.
fn real_points(rng: &mut impl Rng) -> Points {
    let noise: Points = init::normal([BATCH, 2], 0.0, SPREAD, rng);
    let spot = |rng: &mut dyn rand::RngCore| TAU * rng.random_range(0..SPOTS) as f32 / SPOTS as f32;
    let angles: Vec<f32> = (0..BATCH).map(|_| spot(rng)).collect();
    let middles =
        Array2::from_shape_fn([BATCH, 2], |(i, axis)| if axis == 0 { angles[i].cos() } else { angles[i].sin() });
    (&noise.view() + &middles).into()
}

/// The mean distance of the points to their nearest centre, and the number of clusters with at
/// least half of their share of the points.
fn quality(points: &Points) -> (f32, usize) {
    let (mut distances, mut taken) = (0.0, [0; SPOTS]);
    for point in points.view().rows() {
        let turn = (point[1].atan2(point[0]) / TAU * SPOTS as f32).round();
        let angle = turn * TAU / SPOTS as f32;
        distances += (point[0] - angle.cos()).hypot(point[1] - angle.sin());
        taken[turn.rem_euclid(SPOTS as f32) as usize] += 1;
    }
    let fair = points.shape()[0] / SPOTS;
    (distances / points.shape()[0] as f32, taken.into_iter().filter(|&n| n >= fair / 2).count())
}

fn draw(real: &Points, drawn: &Points, file: &str) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(file, (480, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let at = |x: f32| (240.0 + 170.0 * x) as i32;
    for (points, colour) in [(real, RGBColor(200, 200, 200)), (drawn, RGBColor(200, 60, 30))] {
        for point in points.view().rows() {
            area.draw(&Circle::new((at(point[0]), at(-point[1])), 2, colour.filled()))?;
        }
    }
    area.present()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let (generator, critic) = (Mlp::new([2, 64, 64, 2], rng), Mlp::new([2, 64, 64, 1], rng));
    // Both learning rates decay to zero.
    let slow = Adam::new(Linear::new(0.002, 0.0, STEPS as u64 + 1)).betas(0.5, 0.9);
    let fast = Adam::new(Linear::new(0.005, 0.0, (CRITIC_STEPS * (STEPS + 1)) as u64)).betas(0.5, 0.9);
    println!("step  distance  slope  off the spots  spots");
    for step in 0..=STEPS {
        let mut measured = None;
        for _ in 0..CRITIC_STEPS {
            let (real, noise) = (real_points(rng), init::normal([BATCH, 2], 0.0, 1.0, rng));
            let drawn = generator.of(noise).predict().wait()?;
            let share: Points = init::uniform([BATCH, 1], 0.0, 1.0, rng);
            let between: Points = (&drawn.view() + &(&(&real.view() - &drawn.view()) * &share.view())).into();
            let (loss, distance) = critic_loss(&critic, &real, &drawn, between.clone());
            loss.train(&fast).wait()?;
            measured = Some((distance, slope(&critic, &between.into_layer()).mean()));
        }
        let noise: Points = init::normal([BATCH, 2], 0.0, 1.0, rng);
        critic.freeze();
        (-critic.of(generator.of(noise)).mean()).train(&slow).wait()?;
        critic.unfreeze();
        if step % 250 == 0 {
            let (distance, slope) = Do::predict(measured.expect("the critic has taken a step")).wait()?;
            let drawn = generator.of(init::normal([1024, 2], 0.0, 1.0, rng)).predict().wait()?;
            let (off, spots) = quality(&drawn);
            println!("{step:>4} {distance:>9.3} {slope:>6.3} {off:>14.3} {spots:>6}");
        }
    }
    let drawn = generator.of(init::normal([1024, 2], 0.0, 1.0, rng)).predict().wait()?;
    let (off, spots) = quality(&drawn);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/target/gradient_penalty.svg");
    draw(&real_points(rng), &drawn, file)?;
    println!("drawn: {file}\noff_the_spots={off:.3}\nspots={spots}");
    if spots < SPOTS || off > 0.2 { Err("the generator does not cover all clusters".into()) } else { Ok(()) }
}
