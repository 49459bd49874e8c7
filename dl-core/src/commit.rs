//! The second phase of a training step: every weight takes its step, or none does.

use crate::error::{Error, Result};
use crate::node::{AnyLayer, VariableRef};
use crate::optimizer::Optimizer;
use crate::snapshot::Earlier;
use crate::value::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps each of these weights, which must be different, by its delta.
///
/// First the optimizer works out new values and new state for all of them in fresh copies; whatever goes wrong there, an error
/// or a panic, leaves everything as it was. Then the copies take their places, which cannot fail. The locks of all weights are
/// held meanwhile, taken in one order everywhere, so two commits on shared weights never interleave.
pub(crate) fn commit(optimizer: &dyn Optimizer, deltas: Vec<(AnyLayer, Value)>) -> Result<()> {
    let mut steps: Vec<(VariableRef, &Value)> =
        deltas.iter().filter_map(|(layer, delta)| Some((layer.variable()?, delta))).collect();
    steps.sort_unstable_by_key(|(variable, _)| variable.id());
    let locks: Vec<_> = steps.iter().map(|(variable, _)| variable.lock()).collect();
    let mut memory = optimizer.memory().map(|memory| memory.lock());

    let proposals = steps
        .iter()
        .map(|(variable, delta)| {
            let state = memory.as_ref().and_then(|shelves| shelves.get(&variable.id()));
            catch_unwind(AssertUnwindSafe(|| variable.weight.propose(variable, delta, optimizer, state)))
                .unwrap_or_else(|payload| Err(Error::panic(payload)))
                .map_err(|error| error.at("training step of a weight", variable.place()))
        })
        .collect::<Result<Vec<_>>>()?;

    let earlier = Earlier::all();
    let mut old = Vec::with_capacity(steps.len());
    for ((variable, _), (value, shelf)) in steps.iter().zip(proposals) {
        earlier.keep(variable);
        old.push(variable.write(value));
        if let (Some(shelves), Some(shelf)) = (memory.as_mut(), shelf)
            && shelves.insert(variable.id(), shelf).is_none()
        {
            shelves.retain(|_, shelf| shelf.owner.strong_count() > 0);
        }
    }
    drop((memory, locks));
    drop((old, earlier));
    Ok(())
}
