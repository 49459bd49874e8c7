//! Which sample goes through which experts.

use dl_core::{Error, Result};
use dl_nd::ndarray::Ix2;
use dl_nd::{Element, Nd};

/// The choices of a batch. A *choice* is a number, `k · sample + rank`: the expert with this rank,
/// from 0, for that sample.
pub(super) struct Routes {
    pub(super) batch: usize,
    k: usize,
    /// The expert of each choice.
    pub(super) chosen: Vec<usize>,
    /// The choices of each expert, in increasing order.
    pub(super) by_expert: Vec<Vec<usize>>,
    /// Where each choice comes in the list of all choices, expert after expert.
    places: Vec<usize>,
}

impl Routes {
    /// The `k` highest of the gates `[batch, experts]`, for each sample; of equal ones the first.
    pub(super) fn of<A: Element>(gates: &Nd<A, Ix2>, experts: usize, k: usize) -> Result<Self> {
        let &[batch, outputs] = gates.shape() else { return Err(Error::shape("the gates are no matrix")) };
        if batch == 0 {
            return Err(Error::invalid("MixtureOfExperts: the batch is empty, so nothing can be mixed"));
        }
        if outputs != experts {
            return Err(Error::shape(format!(
                "MixtureOfExperts: the gate has {outputs} outputs for {experts} experts"
            )));
        }
        let mut chosen: Vec<usize> = Vec::with_capacity(batch * k);
        for (sample, gates) in gates.view().outer_iter().enumerate() {
            if gates.iter().any(|gate| gate.is_nan()) {
                return Err(Error::not_finite(format!("MixtureOfExperts: the gate of sample {sample} is NaN")));
            }
            let mut order: Vec<usize> = (0..experts).collect();
            // stable: of equal gates the first one stays in front
            order.sort_by(|&a, &b| gates[b].partial_cmp(&gates[a]).expect("none is NaN"));
            chosen.extend(&order[..k]);
        }
        let mut by_expert = vec![Vec::new(); experts];
        for (choice, &expert) in chosen.iter().enumerate() {
            by_expert[expert].push(choice);
        }
        let mut places = vec![0; chosen.len()];
        for (place, &choice) in by_expert.iter().flatten().enumerate() {
            places[choice] = place;
        }
        Ok(Routes { batch, k, chosen, by_expert, places })
    }

    /// For each sample, where its choice of this rank comes.
    pub(super) fn rows(&self, rank: usize) -> Vec<usize> {
        self.places.iter().skip(rank).step_by(self.k).copied().collect()
    }

    /// The share of each expert in all choices.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> {
        self.by_expert.iter().map(|choices| choices.len() as f64 / self.chosen.len() as f64)
    }
}
