//! Steps in which each rank has the state of the optimizer for some of the replicated weights only
//! (*ZeRO-1*). The owner of a weight computes its new value, and sends it to all ranks, which write it
//! in the commit of the step.

use crate::cluster::Cluster;
use dl_core::parts::{NamedValue, PartSum, Ranks};
use dl_core::{ChunkVisitor, Entry, Error, Module, Optimizer, Result, Slot, Step, forward_optimizer};
use std::collections::HashMap;
use std::sync::Arc;

/// The owners of the weights that are on all ranks.
pub(crate) struct Shards<'m, M: ?Sized> {
    rank: usize,
    module: &'m M,
    /// By the id of the weight.
    owners: HashMap<u64, usize>,
}

impl<'m, M: Module + ?Sized> Shards<'m, M> {
    pub(crate) fn new(cluster: &Cluster, module: &'m M) -> Self {
        let entries = module.entries();
        let is_replica = |entry: &Entry| {
            let is_here = cluster.server().is_some_and(|server| server.has_entry(entry.id()));
            entry.is_weight() && entry.rank().is_none() && !is_here
        };
        let owners = entries.iter().zip(cluster.owners(&entries)).filter(|(entry, _)| is_replica(entry));
        Shards { rank: cluster.rank(), module, owners: owners.map(|(entry, owner)| (entry.id(), owner)).collect() }
    }

    /// The new values of the weights that this rank owns.
    pub(crate) fn values<O>(&self, sum: &PartSum, optimizer: &O) -> Result<Vec<NamedValue>>
    where
        O: Optimizer + Clone + 'static,
    {
        let own = sum.clone().take_selected(|id| self.owners.get(&id) == Some(&self.rank));
        let mut weights = self.module.weights().into_iter().filter_map(|entry| entry.weight());
        let has_average = |slots: &[Slot]| slots.iter().any(Slot::is_copy_of_weight);
        let of_weight = |id| optimizer.for_weight(id).is_some_and(|own| has_average(own.slots()));
        if has_average(optimizer.slots()) || weights.any(|weight| of_weight(weight.id())) {
            return Err(Error::invalid(
                "an average of the weights must be on all ranks: leave out `shard_state`, or `ema`",
            ));
        }
        let snapshot = own.effects().wait()?.preview(&OwnWeights::new(optimizer, sum)).wait()?;
        Ok(own.values_in(self.module, &snapshot))
    }

    /// The step of this rank: by the optimizer for the own weights, and by the values of their owners
    /// for the others.
    pub(crate) fn divided<O: Clone>(
        &self,
        mut sum: PartSum,
        optimizer: &O,
        values: Vec<Vec<NamedValue>>,
    ) -> Result<(PartSum, OwnWeights<O>)> {
        let optimizer = OwnWeights::new(optimizer, &sum);
        drop(sum.take_selected(|id| self.owners.get(&id).is_some_and(|&owner| owner != self.rank)));
        let ids: HashMap<String, u64> =
            self.module.weights().iter().map(|entry| (entry.path().to_owned(), entry.id())).collect();
        for (from, values) in values.into_iter().enumerate().filter(|(from, _)| *from != self.rank) {
            let is_owned = |path: &String| ids.get(path).and_then(|id| self.owners.get(id)) == Some(&from);
            if let Some((path, ..)) = values.iter().find(|(path, ..)| !is_owned(path)) {
                return Err(Error::invalid(format!("rank {from} has sent a value of `{path}`, which it does not own")));
            }
            sum.push_values(self.module, values)?;
        }
        Ok((sum, optimizer))
    }
}

/// An optimizer of some weights that begins its steps with the deltas of all, as a clipped norm needs.
#[derive(Clone)]
pub(crate) struct OwnWeights<O> {
    optimizer: O,
    all: Arc<PartSum>,
}

impl<O: Clone> OwnWeights<O> {
    fn new(optimizer: &O, all: &PartSum) -> Self {
        OwnWeights { optimizer: optimizer.clone(), all: Arc::new(all.clone()) }
    }
}

impl<O: Optimizer> Optimizer for OwnWeights<O> {
    forward_optimizer!(this => this.optimizer; slots memory for_weight step descent decays_weights notes kind);

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        let deltas = |only_lazy: bool, visit: &mut ChunkVisitor<'_>| self.all.each_chunk(|_| true, only_lazy, visit);
        self.optimizer.begin(&Step::new(step.steps(), &deltas))
    }
}
