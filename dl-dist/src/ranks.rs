//! The ranks as a training run sees them.

use crate::cluster::Cluster;
use crate::exchange::Round;
use crate::step::{ClusterStep, Loss};
use dl_core::parts::{Ranks, RanksStep};
use dl_core::{Entry, Error, Module, Numbers, Result};
use std::cmp::Reverse;
use std::ops::Range;

impl Ranks for Cluster {
    fn rank(&self) -> usize {
        Cluster::rank(self)
    }

    fn size(&self) -> usize {
        Cluster::size(self)
    }

    fn own_parts(&self, parts: usize) -> Range<usize> {
        Cluster::own_parts(self, parts)
    }

    fn owners(&self, entries: &[Entry]) -> Vec<usize> {
        let here = |entry: &Entry| self.server().is_some_and(|server| server.has_entry(entry.id()));
        let placed = |entry: &Entry| entry.rank().or_else(|| here(entry).then(|| self.rank()));
        owners(entries, self.size(), placed)
    }

    fn gather(&self, mine: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let all: Vec<Box<[u8]>> = self.exchanges()?.round(Round::Run, mine.map(Vec::into_boxed_slice))?;
        Ok(all.into_iter().map(<[u8]>::into_vec).collect())
    }

    fn compare(&self, module: &dyn Module) -> Result<()> {
        Cluster::compare(self, module)
    }

    fn step(&self, step: RanksStep<'_>) -> Result<Vec<f64>> {
        let RanksStep { module, optimizer, parts, shards_state, seed, computed } = step;
        let numbers = |loss| (Vec::new(), Numbers::F64(vec![loss]));
        let computed = computed.map(|(losses, sums)| (losses.into_iter().map(numbers).collect(), sums));
        let step = ClusterStep::new(self, parts, (), true).seed(seed);
        let step = if shards_state { step.shard_state() } else { step };
        let losses = step.step(module, &optimizer, computed)?;
        let loss = |(_, numbers): Loss| match numbers {
            Numbers::F64(row) if row.len() == 1 => Ok(row[0]),
            _ => Err(Error::invalid("the loss of another rank is not a number")),
        };
        losses.into_iter().map(loss).collect()
    }
}

/// The owner of each entry. Those with replicas on all ranks are distributed by size, the largest
/// first, each to the rank that has the fewest numbers so far. A tied entry goes with its first path.
fn owners(entries: &[Entry], size: usize, placed: impl Fn(&Entry) -> Option<usize>) -> Vec<usize> {
    let (mut owners, mut loads): (Vec<Option<usize>>, _) = (entries.iter().map(placed).collect(), vec![0; size]);
    let is_first = |index: usize| entries[index].tied_to().is_none();
    let (placed, mut replicas): (Vec<usize>, Vec<usize>) =
        (0..entries.len()).filter(|&index| is_first(index)).partition(|&index| owners[index].is_some());
    placed.into_iter().for_each(|index| loads[owners[index].unwrap_or_default()] += entries[index].len());
    replicas.sort_by_key(|&index| Reverse(entries[index].len()));
    for index in replicas {
        let least = (0..size).min_by_key(|&rank| loads[rank]).unwrap_or_default();
        (owners[index], loads[least]) = (Some(least), loads[least] + entries[index].len());
    }
    let first = |entry: &Entry| entries.iter().position(|first| first.is_same(entry)).and_then(|first| owners[first]);
    let owner = |(entry, owner): (&Entry, &Option<usize>)| owner.or_else(|| first(entry)).unwrap_or_default();
    entries.iter().zip(&owners).map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::owners;
    use dl_core::{Module, Weight};
    use dl_nd::NdWeight;
    use dl_nd::ndarray::Ix2;

    #[test]
    fn owners_of_replicas_are_balanced_and_agree() {
        let weights = [6, 1, 4, 3, 2].map(|rows| NdWeight::<Ix2>::new(dl_nd::init::zeros([rows, 2])));
        let entries = (weights.clone(), weights[1].clone()).entries();
        let none = owners(&entries, 2, |_| None);
        assert_eq!(none, [0, 1, 1, 1, 0, 1]); // 16 and 16 numbers
        let placed = owners(&entries, 2, |entry| (entry.path() == "0.0").then_some(1));
        assert_eq!(placed, [1, 0, 0, 0, 1, 0]);
        assert_eq!(owners(&[Weight::new(1.0_f64)].entries(), 1, |_| None), [0]);
    }
}
