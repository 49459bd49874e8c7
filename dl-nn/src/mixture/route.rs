//! Routing: the experts that each sample selects.

use dl_core::{Error, Result};
use dl_nd::{Element, Nd, Rank};

/// The selections of a batch. A selection is identified by `k · sample + rank`, where rank 0 is the
/// expert with the highest gate value.
pub(super) struct Routes {
    pub(super) batch: usize,
    k: usize,
    /// The expert of each selection.
    pub(super) chosen: Vec<usize>,
    /// The selections of each expert, in increasing order.
    pub(super) by_expert: Vec<Vec<usize>>,
    /// The index of each selection in the concatenation of `by_expert`.
    positions: Vec<usize>,
}

impl Routes {
    /// Selects for each sample the `k` highest gate values of `gates` (`[…, experts]`). Among equal
    /// values the lower index wins.
    pub(super) fn of<A: Element, D: Rank>(gates: &Nd<A, D>, experts: usize, k: usize) -> Result<Self> {
        let &[ref outer @ .., outputs] = gates.shape() else {
            return Err(Error::shape("MixtureOfExperts: the gates have no axis"));
        };
        let batch: usize = outer.iter().product();
        if batch == 0 {
            return Err(Error::invalid("MixtureOfExperts: the batch is empty"));
        }
        if outputs != experts {
            return Err(Error::shape(format!(
                "MixtureOfExperts: the gate has {outputs} outputs for {experts} experts"
            )));
        }
        let mut chosen: Vec<usize> = Vec::with_capacity(batch * k);
        for (sample, gates) in gates.view().rows().into_iter().enumerate() {
            if gates.iter().any(|gate| gate.is_nan()) {
                return Err(Error::not_finite(format!("MixtureOfExperts: the gate of sample {sample} is NaN")));
            }
            let mut order: Vec<usize> = (0..experts).collect();
            // The sort is stable, so that of equal values the lower index comes first.
            order.sort_by(|&a, &b| gates[b].partial_cmp(&gates[a]).expect("none is NaN"));
            chosen.extend(&order[..k]);
        }
        let mut by_expert = vec![Vec::new(); experts];
        for (choice, &expert) in chosen.iter().enumerate() {
            by_expert[expert].push(choice);
        }
        let mut positions = vec![0; chosen.len()];
        for (position, &choice) in by_expert.iter().flatten().enumerate() {
            positions[choice] = position;
        }
        Ok(Routes { batch, k, chosen, by_expert, positions })
    }

    /// For each sample, the index of its selection of this rank in the concatenation of
    /// `by_expert`.
    pub(super) fn rows(&self, rank: usize) -> Vec<usize> {
        self.positions.iter().skip(rank).step_by(self.k).copied().collect()
    }

    /// The fraction of the selections that fall on each expert.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> {
        self.by_expert.iter().map(|choices| choices.len() as f64 / self.chosen.len() as f64)
    }
}
