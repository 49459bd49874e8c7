//! A training program with dropout, running statistics, shuffled and augmented batches, momentum,
//! and a schedule.

use dl_core::{Layer, Module as _, Numbers, Result};
use dl_data::{Dataset, InMemory, Loader};
use dl_macros::Module;
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Nd, RunningStats, init, ops::*};
use dl_nn::Linear;
use dl_optim::schedule::OneCycle;
use dl_optim::{AdamW, OptimizerExt};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[derive(Module)]
#[module(crate = dl_core)]
pub(crate) struct Net {
    hidden: Linear,
    stats: RunningStats,
    output: Linear,
}

const INPUTS: usize = 6;
const HIDDEN: usize = 16;
const CLASSES: usize = 3;
const SAMPLES: usize = 56;
pub(crate) const BATCHES: u64 = 7;
pub(crate) const EPOCHS: u64 = 3;

pub(crate) type Batch = (Nd<f32, Ix2>, Nd<usize, Ix1>);
pub(crate) type Clipped = dl_optim::plugins::ClipNorm<AdamW>;

impl Net {
    pub(crate) fn new() -> Result<Net> {
        let mut rng = init::rng(1);
        Ok(Net {
            hidden: Linear::new(INPUTS, HIDDEN, &mut rng)?,
            stats: RunningStats::new(HIDDEN),
            output: Linear::new(HIDDEN, CLASSES, &mut rng)?,
        })
    }

    pub(crate) fn loss(&self, (inputs, labels): Batch) -> Layer<f32> {
        let hidden = self.hidden.of(inputs).batch_norm_with(&self.stats, 1e-5).relu();
        self.output.of(hidden.dropout(0.3)).cross_entropy(labels)
    }

    /// The bits of all numbers.
    pub(crate) fn bits(&self) -> Vec<u64> {
        let bits = |numbers| match numbers {
            Numbers::F32(row) => row.into_iter().map(|number: f32| number.to_bits().into()).collect(),
            Numbers::F64(row) => row.into_iter().map(f64::to_bits).collect(),
            Numbers::U64(row) => row,
            other => panic!("{other:?}"),
        };
        self.entries().iter().flat_map(|entry| -> Vec<u64> { bits(entry.numbers()) }).collect()
    }
}

pub(crate) fn optimizer() -> Clipped {
    AdamW::new(OneCycle::new(0.02, EPOCHS * BATCHES)).weight_decay(0.05).clip_norm(1.0)
}

/// The class is the index of the largest of the first three inputs.
fn data() -> Result<impl Dataset<Item = (Nd<f32, Ix1>, usize)> + 'static> {
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let inputs: Vec<f32> = (0..SAMPLES * INPUTS).map(|_| rng.random_range(-1.0..1.0)).collect();
    let largest = |row: &[f32]| (0..CLASSES).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
    let labels: Vec<usize> = inputs.chunks(INPUTS).map(largest).collect();
    let samples = InMemory(Nd::<f32, Ix2>::from_vec([SAMPLES, INPUTS], inputs)?).zip(InMemory(labels))?;
    Ok(samples.augment(|(input, label): (Nd<f32, Ix1>, usize), rng| {
        let scale = rng.random_range(0.9..1.1_f32);
        Ok((Nd::from_vec([INPUTS], input.view().iter().map(|x| scale * x).collect())?, label))
    }))
}

/// The batches of an epoch.
pub(crate) fn batches(epoch: u64) -> Result<impl Iterator<Item = Result<Batch>>> {
    Loader::new(data()?, SAMPLES / BATCHES as usize).shuffle(true).seed(5).prefetch(2).epoch(epoch)
}
