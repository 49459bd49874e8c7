//! A training program that saves a checkpoint after every step, with every kind of state.

use dl_core::{Differentiable, Layer, Optimizer, Result};
use dl_macros::Module;
use dl_nd::ndarray::Ix2;
use dl_nd::{Nd, RunningStats, init, ops::*};
use dl_nn::Linear;
use dl_optim::schedule::{Cosine, Linear as Ramp};
use dl_optim::{AdamW, Ema, OptimizerExt, Schedule};
use dl_train::{Checkpoint, Checkpoints, RngPlace};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::sync::Arc;

#[derive(Module)]
#[module(crate = dl_core)]
pub(crate) struct Net {
    input: Linear,
    hidden: Linear,
    /// Tied to `hidden`.
    hidden_again: Linear,
    stats: RunningStats,
    output: Linear,
}

const INPUTS: usize = 6;
const HIDDEN: usize = 16;
const CLASSES: usize = 3;

impl Net {
    pub(crate) fn new() -> Result<Net> {
        let mut rng = init::rng(1);
        let hidden = Linear::new(HIDDEN, HIDDEN, &mut rng)?;
        Ok(Net {
            input: Linear::new(INPUTS, HIDDEN, &mut rng)?,
            hidden_again: hidden.clone(),
            hidden,
            stats: RunningStats::new(HIDDEN),
            output: Linear::new(HIDDEN, CLASSES, &mut rng)?,
        })
    }

    fn loss(&self, inputs: Nd<f32, Ix2>, labels: Vec<usize>) -> Layer<f32> {
        let hidden = self.hidden.of(self.input.of(inputs).batch_norm_with(&self.stats, 1e-5).relu()).relu();
        self.output.of(self.hidden_again.of(hidden).relu().dropout(0.2)).cross_entropy(Nd::from(labels))
    }
}

pub(crate) struct Run {
    net: Net,
    optimizer: Arc<dyn Optimizer>,
    rng: ChaCha8Rng,
    step: u64,
    checkpoints: Checkpoints,
}

impl Run {
    pub(crate) fn new(folder: &Path) -> Result<Run> {
        let schedule = Ramp::new(0.1, 1.0, 5).times(Cosine::new(0.02, 100));
        let averaged: Ema<_> = AdamW::new(schedule).weight_decay(0.05).ema(0.9);
        Ok(Run {
            net: Net::new()?,
            optimizer: Arc::new(averaged.clip_norm(1.0).refuse_non_finite()),
            rng: ChaCha8Rng::seed_from_u64(2),
            step: 0,
            checkpoints: Checkpoints::in_folder(folder).keep(2),
        })
    }

    /// A run that resumes from the last checkpoint, if there is one.
    pub(crate) fn in_folder(folder: &Path) -> Result<Run> {
        let mut run = Run::new(folder)?;
        run.resume(&["model", "optimizer", "rng"])?;
        Ok(run)
    }

    pub(crate) fn resume(&mut self, parts: &[&str]) -> Result<()> {
        let Some(latest) = self.checkpoints.latest()? else { return Ok(()) };
        assert!(latest.skipped.is_empty(), "{:?}", latest.skipped);
        let mut restore = latest.saved.restore();
        if parts.contains(&"model") {
            restore = restore.module("model", &self.net);
        }
        if parts.contains(&"optimizer") {
            restore = restore.optimizer("adam", &self.optimizer, &self.net);
        }
        restore.apply()?;
        if parts.contains(&"rng") {
            let place = latest.saved.rng("data")?;
            self.rng = ChaCha8Rng::from_seed(place.seed);
            self.rng.set_stream(place.stream);
            self.rng.set_word_pos(place.word);
        }
        assert_eq!(latest.saved.count("step")?, latest.step);
        self.step = latest.step;
        Ok(())
    }

    pub(crate) fn until(&mut self, steps: u64) -> Result<()> {
        while self.step < steps {
            let (inputs, labels) = batch(&mut self.rng);
            self.net.loss(inputs, labels).train(&self.optimizer).seed(self.step).wait()?;
            self.step += 1;
            let place =
                RngPlace { seed: self.rng.get_seed(), stream: self.rng.get_stream(), word: self.rng.get_word_pos() };
            let checkpoint = Checkpoint::new()
                .module("model", &self.net)
                .optimizer("adam", &self.optimizer, &self.net)
                .rng("data", place)
                .count("step", self.step);
            self.checkpoints.save(self.step, &checkpoint)?;
        }
        Ok(())
    }

    /// The loss on other data.
    pub(crate) fn loss(&self) -> Result<f32> {
        let (inputs, labels) = batch(&mut ChaCha8Rng::seed_from_u64(3));
        self.net.loss(inputs, labels).predict().wait()
    }
}

/// The class is the index of the largest of the first three inputs.
fn batch(rng: &mut ChaCha8Rng) -> (Nd<f32, Ix2>, Vec<usize>) {
    const BATCH: usize = 32;
    let inputs: Vec<f32> = (0..BATCH * INPUTS).map(|_| rng.random_range(-1.0..1.0)).collect();
    let largest = |row: &[f32]| (0..CLASSES).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
    let labels = inputs.chunks(INPUTS).map(largest).collect();
    (Nd::from_vec([BATCH, INPUTS], inputs).expect("the length matches the shape"), labels)
}
