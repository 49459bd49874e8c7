//! Different optimizers for different weights.

use crate::api::weight::{WeightHandle, WeightId};
use crate::error::{Error, Result};
use crate::optim::rule::{not_begun, within};
use crate::step::memory::{Memory, Notes};
use crate::step::optimizer::Optimizer;
use crate::step::training_step::{Chunk, Step};
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Other optimizers, or other settings, for some weights.
///
/// The groups have one memory in common, whatever memory their optimizers bring along, and steps
/// are counted together: a training step moves the schedules of all groups on.
///
/// ```
/// use dl_core::{Adam, Differentiable, Groups, Optimizer, Sgd, Weight};
/// let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
/// let groups = Groups::new(Sgd::new(0.1).weight_decay(0.5)).with([&b], Sgd::new(0.5));
/// (&a + &b).train(&groups.clip_norm(10.0)).wait()?;
/// assert_eq!((a.value(), b.value()), (1.0 - 0.1 * 1.5, 0.5));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Groups {
    optimizers: Vec<Arc<dyn Optimizer>>,
    /// Which optimizer is that of a weight; for all others it is the first one.
    groups: Arc<HashMap<WeightId, usize>>,
    /// Where a weight was made that is in two groups.
    in_two: Option<&'static Location<'static>>,
    memory: Memory,
}

impl Groups {
    /// This optimizer, for all weights.
    ///
    /// ```
    /// let groups = dl_core::Groups::new(dl_core::Sgd::new(0.1));
    /// ```
    pub fn new(optimizer: impl Optimizer + 'static) -> Self {
        Groups { optimizers: vec![Arc::new(optimizer)], groups: Arc::default(), in_two: None, memory: Memory::new() }
    }

    /// Another one for these weights. A weight can be in one group only: if it is in two, every
    /// step is an error that says which weight.
    ///
    /// ```
    /// use dl_core::{Groups, Sgd, Weight, WeightHandle};
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
                self.in_two.get_or_insert(weight.place());
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
        if let Some(place) = self.in_two {
            let error =
                Error::invalid("the weight that was made here is in two groups of the optimizer: leave it out of one");
            return Err(error.at("groups", place));
        }
        let mut begun = Vec::with_capacity(self.optimizers.len());
        for (group, optimizer) in self.optimizers.iter().enumerate() {
            let own = step.restricted_to(|weight| self.group(weight) == group, |step| optimizer.begin(step))?;
            begun.push(own.unwrap_or_else(|| Box::new(&**optimizer)));
        }
        Ok(Some(Box::new(Begun { optimizers: begun, groups: self })))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        Some(own(&*self.optimizers[self.group(weight)], weight))
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

/// The groups in one training step.
struct Begun<'o> {
    optimizers: Vec<Box<dyn Optimizer + 'o>>,
    groups: &'o Groups,
}

impl Optimizer for Begun<'_> {
    fn memory(&self) -> Option<&Memory> {
        self.groups.memory()
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        Some(own(&*self.optimizers[self.groups.group(weight)], weight))
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Err(not_begun("has groups of weights"))
    }
}

/// There may be groups in a group.
fn own<'o>(optimizer: &'o (dyn Optimizer + 'o), weight: WeightId) -> Box<dyn Optimizer + 'o> {
    optimizer.for_weight(weight).unwrap_or_else(|| Box::new(optimizer))
}
