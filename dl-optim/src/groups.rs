//! Parameter groups: different optimizers for different weights.

use crate::rule::{not_begun, within};
use dl_core::{Chunk, ChunkVisitor, Error, Memory, Notes, Optimizer, Result, Step, WeightHandle, WeightId};
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Parameter groups: an optimizer for most weights, and other optimizers, or other settings, for
/// some.
///
/// The groups share one memory, which replaces the memories of their optimizers. Steps are counted
/// in common: a training step advances the schedules of all groups.
///
/// ```
/// use dl_core::{Differentiable, Optimizer, Weight};
/// use dl_optim::{OptimizerExt, Adam, Groups, Sgd};
/// let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
/// let groups = Groups::new(Sgd::new(0.1).weight_decay(0.5)).with([&b], Sgd::new(0.5));
/// (&a + &b).train(&groups.clip_norm(10.0)).wait()?;
/// assert_eq!((a.value(), b.value()), (1.0 - 0.1 * 1.5, 0.5));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Groups {
    optimizers: Vec<Arc<dyn Optimizer>>,
    /// The index of the optimizer of a weight; 0 for weights that are not in the map.
    groups: Arc<HashMap<WeightId, usize>>,
    /// Where a weight that is in two groups was created.
    duplicate: Option<&'static Location<'static>>,
    memory: Memory,
}

impl Groups {
    /// This optimizer for all weights that are in no other group.
    ///
    /// ```
    /// let groups = dl_optim::Groups::new(dl_optim::Sgd::new(0.1));
    /// ```
    pub fn new(optimizer: impl Optimizer + 'static) -> Self {
        Groups { optimizers: vec![Arc::new(optimizer)], groups: Arc::default(), duplicate: None, memory: Memory::new() }
    }

    /// Another optimizer for these weights. A weight must be in one group only: if it is in two,
    /// every step is an error that names the weight.
    ///
    /// ```
    /// use dl_core::{Weight, WeightHandle};
    /// use dl_optim::{Groups, Sgd};
    /// let (a, b) = (Weight::new(1.0_f32), Weight::new(1.0_f64));
    /// // weights of different types are given as handles
    /// let both = [WeightHandle::from(&a), WeightHandle::from(&b)];
    /// let groups = Groups::new(Sgd::new(0.1)).with(both, Sgd::new(0.01));
    /// ```
    #[must_use]
    pub fn with(
        mut self,
        weights: impl IntoIterator<Item: Into<WeightHandle>>,
        optimizer: impl Optimizer + 'static,
    ) -> Self {
        let groups = Arc::make_mut(&mut self.groups);
        for weight in weights {
            let weight = weight.into();
            let before = groups.insert(weight.id(), self.optimizers.len());
            if before.is_some_and(|before| before != self.optimizers.len()) {
                self.duplicate.get_or_insert(weight.place());
            }
        }
        self.optimizers.push(Arc::new(optimizer));
        self
    }

    fn group(&self, weight: WeightId) -> usize {
        self.groups.get(&weight).copied().unwrap_or(0)
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").field("groups", &self.optimizers.len()).field("memory", &self.memory).finish()
    }
}

impl Optimizer for Groups {
    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        if let Some(place) = self.duplicate {
            let error =
                Error::invalid("the weight created here is in two groups of the optimizer: remove it from one of them");
            return Err(error.at_location("groups", place));
        }
        let mut begun = Vec::with_capacity(self.optimizers.len());
        for (group, optimizer) in self.optimizers.iter().enumerate() {
            let own = only(step, |weight| self.group(weight) == group, |step| optimizer.begin(step))?;
            begun.push(own.unwrap_or_else(|| Box::new(&**optimizer)));
        }
        Ok(Some(Box::new(GroupsInStep { optimizers: begun, groups: self })))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        Some(for_weight_or_self(&*self.optimizers[self.group(weight)], weight))
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Err(not_begun("has groups of weights"))
    }

    fn decays_weights(&self) -> bool {
        self.optimizers.iter().any(|optimizer| optimizer.decays_weights())
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        let of_group = |(group, optimizer): (usize, &Arc<dyn Optimizer>)| within(&group.to_string(), optimizer.notes());
        self.optimizers.iter().enumerate().flat_map(of_group).collect()
    }

    fn kind(&self) -> String {
        let kinds: Vec<String> = self.optimizers.iter().map(|optimizer| optimizer.kind()).collect();
        format!("Groups({})", kinds.join(", "))
    }
}

/// The groups during one training step.
struct GroupsInStep<'o> {
    optimizers: Vec<Box<dyn Optimizer + 'o>>,
    groups: &'o Groups,
}

impl Optimizer for GroupsInStep<'_> {
    fn memory(&self) -> Option<&Memory> {
        self.groups.memory()
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        Some(for_weight_or_self(&*self.optimizers[self.groups.group(weight)], weight))
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Err(not_begun("has groups of weights"))
    }
}

/// The training step with the weights of one group.
fn only<T>(step: &Step<'_>, in_group: impl Fn(WeightId) -> bool, then: impl FnOnce(&Step<'_>) -> T) -> T {
    let chunks = |only_lazy: bool, look: &mut ChunkVisitor<'_>| {
        step.each_chunk(only_lazy, &mut |weight, chunk| if in_group(weight) { look(weight, chunk) } else { Ok(()) })
    };
    then(&Step::new(step.steps(), &chunks))
}

/// The optimizer for this weight within a group, which may consist of groups in its turn.
fn for_weight_or_self<'o>(optimizer: &'o (dyn Optimizer + 'o), weight: WeightId) -> Box<dyn Optimizer + 'o> {
    optimizer.for_weight(weight).unwrap_or_else(|| Box::new(optimizer))
}
