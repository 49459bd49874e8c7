//! The part of a run that one of several ranks saves and restores.

use dl_core::parts::Ranks;
use dl_core::{Entry, Module};
use std::collections::HashMap;

/// The weights and buffers that one rank saves. Each is saved by one rank, which has it.
#[derive(Debug)]
pub(crate) struct Share {
    rank: usize,
    /// The rank that saves each entry, by its id.
    owners: HashMap<u64, usize>,
    /// Whether only the owner of a weight has the state of the optimizer for it.
    state_by_owner: bool,
}

impl Share {
    pub(crate) fn new(ranks: &dyn Ranks, module: &dyn Module, state_by_owner: bool) -> Share {
        let entries = module.entries();
        let owners = entries.iter().map(Entry::id).zip(ranks.owners(&entries)).collect();
        Share { rank: ranks.rank(), owners, state_by_owner }
    }

    /// The same, with the state of the optimizer on the owners only.
    pub(crate) fn by_owner(&self) -> Share {
        Share { state_by_owner: true, owners: self.owners.clone(), ..*self }
    }

    /// Whether this rank saves what all ranks have.
    pub(crate) fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Whether this rank saves an entry. Rank 0 saves entries outside of the module of the run.
    pub(crate) fn saves(&self, entry: &Entry) -> bool {
        entry.rank().is_none() && self.owners.get(&entry.id()).map_or(self.is_first(), |&owner| owner == self.rank)
    }

    /// Whether this rank has the state of the optimizer for a weight.
    pub(crate) fn has_state(&self, entry: &Entry) -> bool {
        entry.rank().is_none() && (!self.state_by_owner || self.saves(entry))
    }
}
