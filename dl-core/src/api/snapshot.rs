//! Snapshots with the averages of an optimizer in the place of the weights.

use crate::error::Result;
use crate::exec::snapshot::Snapshot;
use crate::graph::value::Value;
use crate::graph::weight::{WeightId, WeightState};
use crate::step::memory::Memory;
use std::collections::HashMap;

impl Snapshot {
    /// A snapshot of this moment in which each weight with state in `memory` has the value of one
    /// of its state buffers, the one whose index `slot` returns.
    ///
    /// # Errors
    /// In the middle of a step with the same memory.
    #[doc(hidden)]
    pub fn of_slots(memory: &Memory, slot: impl Fn(WeightId) -> usize) -> Result<Snapshot> {
        // A step with this memory waits until it is closed, so no weight is half a step ahead.
        let memory = memory.lock()?;
        let value = |(&weight, shelf): (&u64, &WeightState)| {
            let alive = shelf.owner.strong_count() > 0;
            let value = shelf.weight.slot(shelf, slot(WeightId(weight))).filter(|_| alive)?;
            Some((weight, value))
        };
        let values: HashMap<u64, Value> = memory.by_weight.iter().filter_map(value).collect();
        Ok(Snapshot::with(values))
    }
}
