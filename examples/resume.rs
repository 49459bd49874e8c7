//! A run that is resumed from a checkpoint ends with results that are bit-identical to those of an
//! uninterrupted run.
//!
//! ```sh
//! cargo run --release --example resume --features train
//! ```
//!
//! The checkpoint has the whole state: weights, running statistics, moments and averages of the
//! optimizer, the step of its schedule, and the random generator of the order. Dropout depends on
//! the seed of the step, which is the number of the step.

#[path = "common/digits.rs"]
mod digits;

use digits::Batch;
use dl::nd::{RunningStats, init};
use dl::nn::Linear;
use dl::prelude::*;
use dl::schedule::Cosine;
use dl::train::{Checkpoint, Checkpoints, RngPlace};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::path::{Path, PathBuf};

const EPOCHS: u64 = 8;
const BATCH: usize = 32;

#[derive(Module)]
struct Net {
    hidden: Linear,
    stats: RunningStats,
    output: Linear,
}

impl Net {
    /// `[batch, 64] → [batch, 10]`.
    fn logits(&self, pixels: &Nd<f32, Ix2>) -> NdLayer {
        let hidden = self.hidden.of(pixels).batch_norm_with(&self.stats, 1e-5).relu();
        self.output.of(hidden.dropout(0.2))
    }
}

/// The state of a training run.
struct Run {
    net: Net,
    optimizer: dl::Ema<AdamW>,
    rng: ChaCha8Rng,
    epoch: u64,
}

impl Run {
    fn new((_, labels): &Batch) -> dl::Result<Run> {
        let mut rng = init::rng(1);
        let net = Net {
            hidden: Linear::new(64, 48, &mut rng)?,
            stats: RunningStats::new(48),
            output: Linear::new(48, 10, &mut rng)?,
        };
        let steps = EPOCHS * labels.len().div_ceil(BATCH) as u64;
        Ok(Run { net, optimizer: AdamW::new(Cosine::new(0.005, steps)).ema(0.99), rng, epoch: 0 })
    }

    fn checkpoint(&self) -> Checkpoint {
        let rng = &self.rng;
        let place = RngPlace { seed: rng.get_seed(), stream: rng.get_stream(), word: rng.get_word_pos() };
        Checkpoint::new()
            .module("net", &self.net)
            .optimizer("adam", &self.optimizer, &self.net)
            .rng("order", place)
            .count("epoch", self.epoch)
    }

    /// Resumes from the last checkpoint of a folder, if there is one.
    fn resume(data: &Batch, folder: &Path) -> dl::Result<Run> {
        let mut run = Run::new(data)?;
        let Some(latest) = Checkpoints::in_folder(folder).latest()? else { return Ok(run) };
        let saved = latest.saved;
        saved.restore().module("net", &run.net).optimizer("adam", &run.optimizer, &run.net).apply()?;
        let place = saved.rng("order")?;
        run.rng = ChaCha8Rng::from_seed(place.seed);
        run.rng.set_stream(place.stream);
        run.rng.set_word_pos(place.word);
        run.epoch = saved.count("epoch")?;
        println!(
            "resumes after epoch {} from {}",
            run.epoch,
            Checkpoints::in_folder(folder).path(latest.step).display()
        );
        Ok(run)
    }

    fn train(&mut self, data: &Batch, until: u64, folder: &Path) -> dl::Result<()> {
        let checkpoints = Checkpoints::in_folder(folder).keep(2);
        while self.epoch < until {
            let order = digits::shuffled(data.1.len(), &mut self.rng);
            let mut loss = 0.0;
            for (number, of) in order.chunks(BATCH).enumerate() {
                let (pixels, labels) = digits::select(data, of);
                let step = self.epoch * 1000 + number as u64;
                loss = self.net.logits(&pixels).cross_entropy(labels).train(&self.optimizer).seed(step).wait()?;
            }
            self.epoch += 1;
            checkpoints.save(self.epoch, &self.checkpoint())?;
            println!("epoch {}  loss of the last batch {loss:.4}", self.epoch);
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let data = digits::tensors()?;
    let folder: PathBuf = std::env::temp_dir().join(format!("dl-resume-{}", std::process::id()));
    let [whole, stopped] = ["whole", "stopped"].map(|name| folder.join(name));

    println!("uninterrupted:");
    Run::new(&data)?.train(&data, EPOCHS, &whole)?;
    println!("interrupted in the middle:");
    Run::resume(&data, &stopped)?.train(&data, EPOCHS / 2, &stopped)?;
    let mut resumed = Run::resume(&data, &stopped)?;
    resumed.train(&data, EPOCHS, &stopped)?;

    let last = |folder: &Path| std::fs::read(Checkpoints::in_folder(folder).path(EPOCHS));
    assert!(last(&whole)? == last(&stopped)?, "the checkpoints must be bit-identical");
    println!("both runs ended with bit-identical checkpoints");

    let averaged = resumed.optimizer.snapshot()?;
    let right = resumed.net.logits(&data.0).argmax(1).equal(&data.1).to_floats::<f32>().mean();
    let accuracy = right.predict().on(&averaged).wait()?;
    println!("accuracy of the averaged weights on the training data {accuracy:.4}");
    assert!(accuracy > 0.97, "the network has learned less than it should");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
