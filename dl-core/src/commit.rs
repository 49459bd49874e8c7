//! The second phase of a training step: every weight takes its step, or none does.

use crate::error::{Error, Result};
use crate::node::{AnyLayer, Expression};
use crate::optimizer::Optimizer;
use crate::value::Value;
use crate::weight::AnyWeight;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Steps each of these weights, which must be different, by its delta.
///
/// First the optimizer works out new values and new state for all of them in fresh copies; whatever goes wrong there, an error
/// or a panic, leaves everything as it was. Then the copies take their places, which cannot fail. The locks of all weights are
/// held meanwhile, taken in one order everywhere, so two commits on shared weights never interleave.
pub(crate) fn commit(optimizer: &dyn Optimizer, deltas: Vec<(AnyLayer, Value)>) -> Result<()> {
    let mut steps: Vec<(&Arc<dyn AnyWeight>, &Value)> = deltas
        .iter()
        .filter_map(|(layer, delta)| match &layer.expression {
            Expression::Weight(weight) => Some((weight, delta)),
            _ => None,
        })
        .collect();
    steps.sort_by_key(|(weight, _)| weight.variable().id());
    let locks: Vec<_> = steps.iter().map(|(weight, _)| weight.variable().lock()).collect();
    let mut memory = optimizer.memory().map(|memory| memory.lock());

    let proposals = steps
        .iter()
        .map(|(weight, delta)| {
            let state = memory.as_ref().and_then(|shelves| shelves.get(&weight.variable().id()));
            catch_unwind(AssertUnwindSafe(|| weight.propose(delta, optimizer, state)))
                .unwrap_or_else(|payload| Err(Error::panic(payload)))
                .map_err(|error| error.at("training step of a weight", weight.variable().place()))
        })
        .collect::<Result<Vec<_>>>()?;

    let mut old = Vec::with_capacity(steps.len());
    for ((weight, _), (value, shelf)) in steps.iter().zip(proposals) {
        old.push(weight.variable().write(value));
        if let (Some(shelves), Some(shelf)) = (memory.as_mut(), shelf)
            && shelves.insert(weight.variable().id(), shelf).is_none()
        {
            shelves.retain(|_, shelf| shelf.owner.strong_count() > 0);
        }
    }
    drop((memory, locks));
    drop(old);
    Ok(())
}
