//! Decisions of many samples on a device: each sample leaves a network at the first layer that is
//! confident enough, and all that wait for a decision share one wait for the device.
//!
//! ```sh
//! cargo run --release --example decisions                           # counts on a device without hardware
//! cargo run --release --features gpu --example decisions -- --device
//! ```
//!
//! The network is trained with all exits; the loss falls, and the weights have the bits of a
//! training on the host. Then 64 samples decide: in one pass, and one after the other.

#[path = "common/device.rs"]
mod device;

use dl::nd::device::{Device, Dry};
use dl::nd::{MoveModule, init};
use dl::prelude::*;
use std::sync::Arc;
use std::time::Instant;

const LAYERS: usize = 8;
const WIDTH: usize = 32;
const SAMPLES: usize = 64;
/// A score above this is confident.
const ENOUGH: f32 = 0.5;

#[derive(Clone, Module)]
struct Net {
    layers: Vec<NdWeight>,
    exit: NdWeight,
}

impl Net {
    fn new() -> Self {
        let mut rng = init::rng(1);
        let mut layer = || Weight::new(init::xavier_uniform([WIDTH, WIDTH], &mut rng));
        let layers = (0..LAYERS).map(|_| layer()).collect();
        Net { layers, exit: Weight::new(init::xavier_uniform([WIDTH, 1], &mut rng)) }
    }

    /// The mean squared error of all exits.
    fn loss(&self, x: &Nd, y: &Nd) -> Layer<f32> {
        let mut state = x.layer();
        let mut errors = Vec::new();
        for layer in &self.layers {
            state = state.matmul(layer).tanh();
            errors.push((state.matmul(&self.exit) - y.layer()).square().mean());
        }
        errors.into_iter().sum()
    }
}

/// The score of the first exit that is confident, or of the last one.
#[differentiable]
fn classify(net: &Net, x: &NdLayer) -> Layer<f32> {
    let mut state = x.clone();
    let mut score = Layer::constant(0.0);
    for layer in &net.layers {
        state = state.matmul(layer).tanh();
        score = state.matmul(&net.exit).sum();
        if !score.clone() > ENOUGH {
            break;
        }
    }
    score
}

fn main() -> dl::Result<()> {
    let asked = std::env::args().any(|argument| argument == "--device");
    let device: Arc<dyn Device> = device::open(asked)?.unwrap_or_else(Dry::new);
    println!("{}", device.name());

    let mut rng = init::rng(2);
    let x: Nd = init::normal([SAMPLES, WIDTH], 0.0, 1.0, &mut rng);
    let y = Nd::from_vec([SAMPLES, 1], x.view().rows().into_iter().map(|row| f32::from(row[0] > 0.0)).collect())?;
    let (net, host) = (Net::new(), Net::new());
    net.move_to(&device)?;
    let (on_x, on_y) = (x.to(&device)?, y.to(&device)?);
    let train = |net: &Net, x: &Nd, y: &Nd| -> dl::Result<Vec<f32>> {
        let adam = Adam::new(0.01).clip_norm(1.0);
        (0..30).map(|_| net.loss(x, y).train(&adam).wait()).collect()
    };
    let losses = train(&net, &on_x, &on_y)?;
    if asked {
        assert!(losses[29] < losses[0], "the loss has not fallen: {losses:?}");
        assert_eq!(losses, train(&host, &x, &y)?, "the host has other bits");
        for (moved, host) in net.layers.iter().zip(&host.layers) {
            assert_eq!(moved.value().to_host()?, host.value(), "the host has other bits");
        }
    }

    let samples: Vec<NdLayer> = (0..SAMPLES)
        .map(|row| Ok(Nd::from_vec([1, WIDTH], x.view().row(row).to_vec())?.to(&device)?.layer()))
        .collect::<dl::Result<_>>()?;
    let together = || Do::predict(samples.iter().map(|x| classify(&net, x)).collect::<Vec<_>>()).wait();
    let apart = || samples.iter().map(|x| classify(&net, x).predict().wait()).collect::<dl::Result<Vec<f32>>>();
    let (one_pass, waits, seconds) = measured(&device, together)?;
    let (in_turn, more_waits, more_seconds) = measured(&device, apart)?;
    assert_eq!(one_pass, in_turn);
    println!("one pass: {waits} waits, {seconds:.4} s; one after the other: {more_waits} waits, {more_seconds:.4} s");
    assert!(waits * 4 < more_waits, "decisions in one pass share their waits");
    Ok(())
}

/// The scores, the waits for the device, and the time of a second run.
fn measured(device: &Arc<dyn Device>, run: impl Fn() -> dl::Result<Vec<f32>>) -> dl::Result<(Vec<f32>, u64, f64)> {
    run()?;
    let (before, start) = (device.counters().syncs, Instant::now());
    let scores = run()?;
    Ok((scores, device.counters().syncs - before, start.elapsed().as_secs_f64()))
}
