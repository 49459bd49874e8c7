//! Writes of given values, as a commit without an optimizer.

use super::{
    Action, PendingUpdate, PendingUpdates, Source, commit_updates, drop_updates, lock_all, unlock, within_step,
};
use crate::error::Result;
use crate::exec::snapshot::LiveSnapshots;
use crate::exec::user_code;
use crate::graph::chunk::Chunk;
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use crate::step::optimizer::Optimizer;
use std::panic::Location;

/// Writes values into distinct variables, atomically.
#[track_caller]
pub(crate) fn write(values: Vec<(NodeRef, Value)>) -> Result<()> {
    let place = Location::caller();
    let pending = values.iter().filter_map(|(leaf, value)| {
        Some(PendingUpdate::new(leaf.as_variable()?, Source::Buffer(place), Action::Replace(value.clone())))
    });
    commit_updates(&NoWeights, &mut pending.collect(), None, &[])
}

/// Writes distinct variables, given by a node each. `check` runs when all are locked. `make` returns the
/// new value of the variable with an id; it is written before the next one is made, and the old value is
/// dropped, unless it has other owners. To a step and a snapshot all writes are one, as in [`write`].
///
/// The destructor of an old value runs while all variables are locked.
///
/// # Errors
/// Those of `check`; then nothing is written. Those of `make`, and its panic; then the values that it
/// returned before are written.
#[track_caller]
pub(crate) fn write_each(
    leaves: &[&NodeRef],
    check: impl FnOnce() -> Result<()>,
    mut make: impl FnMut(u64) -> Result<Value>,
) -> Result<()> {
    let place = Location::caller();
    let variables = leaves.iter().filter_map(|leaf| leaf.as_variable());
    let pending = variables.map(|variable| PendingUpdate::new(variable, Source::Buffer(place), Action::Unknown));
    let mut pending: PendingUpdates<'_> = pending.collect();
    let mut snapshots = None;
    let written = lock_all(&mut pending).and_then(|()| {
        let live = snapshots.insert(LiveSnapshots::collect());
        live.save(pending.iter().map(|update| update.variable));
        within_step(|| {
            user_code::run_fallible(check)?;
            pending.iter().try_for_each(|update| {
                let mut value = user_code::run_fallible(|| make(update.variable.id()))?;
                update.variable.exchange(&mut value);
                user_code::ignore_panic(|| drop(value));
                Ok(())
            })
        })
    });
    unlock(&mut pending);
    drop_updates(&mut pending);
    user_code::ignore_panic(|| drop(snapshots));
    written
}

/// The optimizer of a commit that has no weights, only given values.
struct NoWeights;

impl Optimizer for NoWeights {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        unreachable!("a commit of given values takes no step")
    }
}
