//! The position of a run in a checkpoint.

use super::Place;
use crate::checkpoint::Checkpoint;
use crate::record::Record;
use crate::saved::Saved;
use dl_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// A serialized record. Numbers are stored as bits, so that all values, also infinite ones, are
/// restored exactly.
#[derive(Serialize, Deserialize)]
struct EpochRecord {
    epoch: u64,
    step: u64,
    values: Vec<(String, u64)>,
}

/// Adds the position to a checkpoint.
pub(super) fn add_place(checkpoint: Checkpoint, at: &Place, seed: u64) -> Checkpoint {
    let epoch = |record: &Record| EpochRecord {
        epoch: record.epoch,
        step: record.step,
        values: record.values().map(|(name, value)| (name.to_owned(), value.to_bits())).collect(),
    };
    let history: Vec<EpochRecord> = at.history.iter().map(epoch).collect();
    let history = serde_json::to_string(&history).expect("strings and integers are valid JSON");
    checkpoint
        .count("epoch", at.epoch)
        .count("batch", at.batch)
        .count("step", at.step)
        .count("seed", seed)
        .count("ended", at.ended.into())
        .number("sum of losses", at.sum)
        .text("history", &history)
}

/// Reads the position from the checkpoint of a run with this seed after this step, and validates
/// it.
pub(super) fn read_place(saved: &Saved, seed: u64, step: u64, parts: u64) -> Result<Place> {
    let found = saved.count("seed")?;
    if found != seed {
        let [found, seed] = [found, seed].map(|seed| seed >> 32);
        return Err(Error::invalid(format!("the checkpoint is of a run with seed {found}, this run has seed {seed}")));
    }
    let history: Vec<EpochRecord> = serde_json::from_str(saved.text("history")?)
        .map_err(|error| Error::invalid(format!("the history in the checkpoint cannot be read: {error}")))?;
    let record = |EpochRecord { epoch, step, values }: EpochRecord| {
        let mut values = values.into_iter();
        values.try_fold(Record::new(epoch, step), |record, (name, bits)| record.with(name, f64::from_bits(bits)))
    };
    let at = Place {
        epoch: saved.count("epoch")?,
        batch: saved.count("batch")?,
        step: saved.count("step")?,
        ended: saved.count("ended")? != 0,
        sum: saved.number("sum of losses")?,
        history: history.into_iter().map(record).collect::<Result<_>>()?,
        ..Place::default()
    };
    let (epochs, before) = (at.history.len() as u64, at.history.last().map_or(0, |record| record.step));
    if (at.epoch, at.step) == (epochs, step) && before.checked_add(at.batch.div_ceil(parts)) == Some(step) {
        return Ok(at);
    }
    Err(Error::invalid(format!(
        "the checkpoint of step {step} is inconsistent: step {}, batch {} of epoch {}, after {epochs} epochs and {before} steps",
        at.step, at.batch, at.epoch
    )))
}
