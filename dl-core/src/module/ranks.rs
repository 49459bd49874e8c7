//! The ranks of a program, as a training run sees them.

use crate::api::parts::total;
use crate::autodiff::part_sum::NodeSums;
use crate::error::Result;
use crate::module::{Entry, Module};
use crate::step::optimizer::Optimizer;
use std::ops::Range;
use std::sync::Arc;

/// The ranks that take the steps of a training run, as one of them sees them. All ranks must call the
/// functions that exchange something in the same order.
pub trait Ranks {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// The parts, of so many, that this rank evaluates.
    fn own_parts(&self, parts: usize) -> Range<usize>;

    /// The rank that saves each of these weights and buffers: the only one that has it, or one of
    /// those that have a replica. It is the same answer on all ranks.
    fn owners(&self, entries: &[Entry]) -> Vec<usize>;

    /// The bytes of all ranks.
    ///
    /// # Errors
    /// On all ranks, if one has an error: that of the lowest one.
    fn gather(&self, mine: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>>;

    /// Compares the replicas of a module.
    ///
    /// # Errors
    /// On all ranks, if one differs.
    fn compare(&self, module: &dyn Module) -> Result<()>;

    /// Takes a step, and ends with the losses of all parts.
    ///
    /// # Errors
    /// On all ranks, if one has an error. Then nothing has changed.
    fn step(&self, step: RanksStep<'_>) -> Result<Vec<f64>>;
}

/// A step of all ranks on the mean of the losses of some parts.
pub struct RanksStep<'a> {
    /// The module that has all weights and buffers that the step changes.
    pub module: &'a dyn Module,
    /// The optimizer.
    pub optimizer: Arc<dyn Optimizer>,
    /// The number of parts of all ranks.
    pub parts: usize,
    /// Whether each rank has the state of the optimizer only for the weights that it owns.
    pub shards_state: bool,
    /// The seed of the step.
    pub seed: u64,
    /// The losses and the sums of the parts of this rank.
    pub computed: Result<(Vec<f64>, NodeSums)>,
}

/// The only rank of a program.
pub struct OneRank;

impl Ranks for OneRank {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn own_parts(&self, parts: usize) -> Range<usize> {
        0..parts
    }

    fn owners(&self, entries: &[Entry]) -> Vec<usize> {
        vec![0; entries.len()]
    }

    fn gather(&self, mine: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine?])
    }

    fn compare(&self, _: &dyn Module) -> Result<()> {
        Ok(())
    }

    fn step(&self, RanksStep { optimizer, parts, computed, .. }: RanksStep<'_>) -> Result<Vec<f64>> {
        let (losses, sums) = computed?;
        total(parts, sums).wait()?.effects().wait()?.step(&optimizer).wait()?;
        Ok(losses)
    }
}
