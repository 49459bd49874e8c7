//! Decisions that the ranks of a run make together. A run in one process has none.

use crate::checkpoints::{Checkpoints, Latest};
use crate::record::Record;
use crate::sharded::Sharded;
use crate::share::Share;
use dl_core::parts::{NodeSums, Ranks, RanksStep, Wire};
use dl_core::{Error, Module, Optimizer, Result};
use std::sync::Arc;

/// The ranks of a run, if it has several. All of them call these functions in the same order.
#[derive(Default)]
pub(super) struct Together<'a>(Option<Across<'a>>);

pub(super) struct Across<'a> {
    ranks: &'a dyn Ranks,
    module: &'a dyn Module,
    shards_state: bool,
}

/// The batches of a step that this rank evaluates.
pub(super) struct OwnParts<B> {
    pub(super) own: Vec<Result<B>>,
    pub(super) first: usize,
    /// The number of batches of all ranks.
    pub(super) count: usize,
}

impl<'a> Together<'a> {
    pub(super) fn on(ranks: &'a dyn Ranks, module: &'a dyn Module) -> Self {
        Together(Some(Across { ranks, module, shards_state: false }))
    }

    pub(super) fn shard_state(&mut self) {
        self.0.iter_mut().for_each(|across| across.shards_state = true);
    }

    pub(super) fn across(&self) -> Option<&Across<'a>> {
        self.0.as_ref()
    }

    /// Whether this is rank 0.
    pub(super) fn is_first(&self) -> bool {
        self.0.as_ref().is_none_or(|across| across.ranks.rank() == 0)
    }

    /// The result of this rank, if none has an error.
    pub(super) fn agree<T>(&self, mine: Result<T>) -> Result<T> {
        self.gather(&mine, |_| Vec::new())?;
        mine
    }

    /// Whether a rank says so.
    pub(super) fn agree_on_any(&self, mine: Result<bool>) -> Result<bool> {
        let all = self.gather(&mine, |&mine| vec![u8::from(mine)])?;
        Ok(mine? | all.contains(&vec![1]))
    }

    /// Whether a rank says so.
    pub(super) fn any(&self, mine: bool) -> Result<bool> {
        self.agree_on_any(Ok(mine))
    }

    /// The record of rank 0.
    pub(super) fn of_first_rank(&self, mine: Result<Record>) -> Result<Record> {
        let bytes = |record: &Record| {
            record.values().map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>().to_bytes()
        };
        let all = self.gather(&mine, bytes)?;
        let mine = mine?;
        let Some(first) = all.first() else { return Ok(mine) };
        let empty = Record::new(mine.epoch, mine.step);
        Vec::<(String, f64)>::from_bytes(first)?
            .into_iter()
            .try_fold(empty, |record, (name, value)| record.with(name, value))
    }

    /// The bytes of all ranks; nothing in one process.
    fn gather<T>(&self, mine: &Result<T>, bytes: impl FnOnce(&T) -> Vec<u8>) -> Result<Vec<Vec<u8>>> {
        match &self.0 {
            Some(Across { ranks, .. }) => ranks.gather(mine.as_ref().map(bytes).map_err(Error::clone)),
            None => Ok(Vec::new()),
        }
    }

    /// The checkpoints of all ranks.
    pub(super) fn sharded(&self, checkpoints: &Checkpoints) -> Option<Sharded<'a>> {
        self.0.as_ref().map(|&Across { ranks, module, shards_state }| {
            Sharded::new(checkpoints, ranks, Share::new(ranks, module, shards_state))
        })
    }

    pub(super) fn latest(&self, checkpoints: &Checkpoints) -> Result<Option<Latest>> {
        self.sharded(checkpoints).map_or_else(|| checkpoints.latest(), |sharded| sharded.latest())
    }

    /// Compares the replicas.
    pub(super) fn compare(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |across| across.ranks.compare(across.module))
    }

    /// The batches of a step that this rank evaluates. On several ranks, a batch that failed is in
    /// it: this rank must take part in the step.
    ///
    /// # Errors
    /// In one process, that of the first batch that failed.
    pub(super) fn own_parts<B>(&self, all: impl Iterator<Item = Result<B>>) -> Result<OwnParts<B>> {
        let Some(Across { ranks, .. }) = &self.0 else {
            let own: Vec<Result<B>> = all.map(|batch| batch.map(Ok)).collect::<Result<_>>()?;
            return Ok(OwnParts { first: 0, count: own.len(), own });
        };
        let mut own: Vec<Result<B>> = all.collect();
        let (count, range) = (own.len(), ranks.own_parts(own.len()));
        own.truncate(range.end);
        own.drain(..range.start);
        Ok(OwnParts { own, first: range.start, count })
    }
}

impl Across<'_> {
    /// Takes a step. Ends with the losses of all parts.
    pub(super) fn step(
        &self,
        optimizer: Arc<dyn Optimizer>,
        parts: usize,
        seed: u64,
        computed: Result<(Vec<f64>, NodeSums)>,
    ) -> Result<Vec<f64>> {
        let Across { ranks, module, shards_state } = *self;
        ranks.step(RanksStep { module, optimizer, parts, shards_state, seed, computed })
    }
}
