//! The commit of a training step: updates all variables of the step, or none.

use crate::api::snapshot::Earlier;
use crate::api::weight::WeightId;
use crate::autodiff::cotangent::AnyDelta;
use crate::error::{Error, Result};
use crate::exec;
use crate::exec::tables;
use crate::exec::tables::Row;
use crate::exec::{Owner, Pass};
use crate::graph::node::Node;
use crate::graph::node_ref::AnyLayer;
use crate::graph::op::Few;
use crate::graph::value::{Repr, Value};
use crate::graph::variable::Variable;
use crate::optim::sgd::Sgd;
use crate::parallel::fork_join;
use crate::parallel::sync::{MutexGuard, current_num_threads, thread_local};
use crate::record::{SpanWork, Told};
use crate::step::memory::{Memory, Shelf, Shelves};
use crate::step::optimizer::Optimizer;
use crate::step::training_step::{Look, Step};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

thread_local! {
    /// Whether this thread is computing an update. The optimizer may evaluate layers and take
    /// nested steps meanwhile.
    pub(crate) static STEPPING: Cell<bool> = const { Cell::new(false) };
}

/// The operation name in errors.
const STEP_OF_WEIGHT: &str = "training step of a weight";

/// Whether this thread is computing an update, or works for a pass that was started there.
#[inline]
pub(crate) fn is_stepping() -> bool {
    STEPPING.get() || exec::in_step()
}

/// A variable to be updated.
struct Change<'a> {
    variable: &'a Variable,
    /// The origin of the new value.
    source: Source<'a>,
    lock: Option<MutexGuard<'a, ()>>,
    new: New,
}

/// An element of raw storage for updates. Updates borrow from the step, so tables of them are
/// cached as untyped memory.
pub(crate) type Words = [usize; size_of::<Change<'static>>() / size_of::<usize>()];

/// The new value of a variable.
enum New {
    /// Not computed yet.
    Unknown,
    /// The new value before the swap, the old value after it.
    Value(Value),
    /// An in-place gradient-descent update with this learning rate.
    Descent(f64),
}

enum Source<'a> {
    /// A weight: the new value is computed by the optimizer from this delta.
    Delta(&'a AnyDelta),
    /// A buffer: the new value is that of a layer, built at this source location.
    Update(&'static Location<'static>),
}

/// The new value of a buffer, as computed by a pass.
pub(crate) struct Update {
    pub(crate) buffer: AnyLayer,
    pub(crate) value: Value,
    pub(crate) place: &'static Location<'static>,
}

/// Updates these distinct weights by their deltas, and writes the buffer updates of these passes.
///
/// The commit has two phases. Prepare: the optimizer computes new values and new state into fresh
/// copies; an error or a panic leaves everything unchanged. Swap: the copies replace the old
/// values, which cannot fail. The locks of all variables are held throughout and are acquired in id
/// order, so concurrent commits neither deadlock nor interleave.
pub(crate) fn commit<L: Deref<Target = Node>>(
    optimizer: &dyn Optimizer,
    deltas: Vec<(L, AnyDelta)>,
    passes: &[Owner],
) -> Result<()>
where
    (L, AnyDelta): Row,
{
    discarding(deltas, |deltas| {
        let mut updates: Vec<Update> = Vec::new();
        for pass in passes {
            pass.before_commit(&mut updates)?;
        }
        commit_with(optimizer, deltas, &updates, &passes.iter().map(|pass| &**pass).collect::<Few<_>>())
    })
}

/// Does the same as the last action of the pass, so the pass can release its values first and
/// in-place updates need not copy weights that the pass still refers to.
pub(crate) fn commit_and_end<L: Deref<Target = Node>>(
    optimizer: &dyn Optimizer,
    deltas: Vec<(L, AnyDelta)>,
    pass: &Arc<Pass>,
) -> Result<()>
where
    (L, AnyDelta): Row,
{
    discarding(deltas, |deltas| {
        let mut updates: Vec<Update> = Vec::new();
        pass.before_commit(&mut updates)?;
        if optimizer.descent().is_some() {
            pass.let_go_of_values();
        }
        commit_with(optimizer, deltas, &updates, &[pass])
    })
}

/// Drops the deltas after the step. The step has been taken or has failed by then: a destructor
/// panic is not reported.
fn discarding<D: Row>(deltas: Vec<D>, step: impl FnOnce(&[D]) -> Result<()>) -> Result<()> {
    let taken = step(&deltas);
    let _ = catch_unwind(AssertUnwindSafe(|| tables::put_away(deltas)));
    taken
}

fn commit_with<L: Deref<Target = Node>>(
    optimizer: &dyn Optimizer,
    deltas: &[(L, AnyDelta)],
    updates: &[Update],
    passes: &[&Arc<Pass>],
) -> Result<()> {
    let mut changes = room(deltas.len() + updates.len());
    // A traversal from the root mostly finds the oldest weight last, so this order is nearly by id.
    for (layer, delta) in deltas.iter().rev() {
        if let (Some(variable), AnyDelta::Ready(_) | AnyDelta::Unmade(..)) = (layer.as_variable(), delta)
            && !variable.frozen()
        {
            changes.push(Change::new(variable, Source::Delta(delta), New::Unknown));
        }
    }
    changes.extend(updates.iter().filter_map(|update| {
        let variable = update.buffer.as_variable()?;
        Some(Change::new(variable, Source::Update(update.place), New::Value(update.value.clone())))
    }));
    recorded(passes, || {
        let ended = commit_changes(optimizer, &mut changes, passes);
        // Must precede the callback of a recorder: a failed step may still hold its locks.
        discard(&mut changes);
        ended
    })?;
    if !updates.is_empty() {
        passes.iter().for_each(|pass| pass.after_commit());
    }
    Ok(())
}

/// Takes a step, recorded by the current pass or else by one of the passes of the step.
fn recorded<R>(passes: &[&Arc<Pass>], step: impl FnOnce() -> R) -> R {
    exec::with_current(|current| {
        match current.into_iter().chain(passes.iter().copied()).find(|pass| pass.is_watched()) {
            Some(pass) => pass.during(SpanWork::Commit, None, || Told::NOBODY, step),
            None => step(),
        }
    })
}

/// Writes values into distinct variables, atomically.
#[track_caller]
pub(crate) fn write(values: Vec<(AnyLayer, Value)>) -> Result<()> {
    let place = Location::caller();
    let changes = values.iter().filter_map(|(leaf, value)| {
        Some(Change::new(leaf.as_variable()?, Source::Update(place), New::Value(value.clone())))
    });
    let mut changes: Changes<'_> = changes.collect();
    // There are no deltas, so the optimizer is not used.
    let ended = commit_changes(&Sgd::new(0.0), &mut changes, &[]);
    discard(&mut changes);
    ended
}

fn commit_changes(optimizer: &dyn Optimizer, changes: &mut Changes<'_>, passes: &[&Arc<Pass>]) -> Result<()> {
    order(changes)?;

    let nested = is_stepping();
    for change in changes.iter_mut() {
        change.lock = Some(lock(change.variable, nested)?);
    }
    let memory = catch_unwind(AssertUnwindSafe(|| optimizer.memory())).map_err(Error::panic)?;
    let mut memory = memory.map(Memory::open).transpose()?;

    let Proposed { shelves: proposed, nanoseconds } = propose(changes, optimizer, memory.as_deref())?;

    let earlier = Earlier::all();
    for change in changes.iter_mut() {
        earlier.keep(change.variable);
        match &mut change.new {
            New::Value(value) => change.variable.exchange(value),
            New::Descent(_) => {}
            New::Unknown => unreachable!("a new value was proposed"),
        }
    }
    match passes {
        [pass] => pass.committing(|| descend(changes, nanoseconds)),
        _ => descend(changes, nanoseconds),
    }
    // Dropped at the end, as the old values are: the destructors may be user code.
    let mut dead: Vec<Shelf> = Vec::new();
    if let Some(Shelves { steps, by_weight }) = memory.as_deref_mut() {
        let new = proposed.len();
        dead.extend(proposed.into_iter().filter_map(|(id, shelf)| by_weight.insert(id, shelf)));
        if dead.len() < new {
            dead.extend(by_weight.extract_if(|_, shelf| shelf.owner.strong_count() == 0).map(|dead| dead.1));
        }
        *steps += 1;
    }
    drop(memory);
    for change in changes.iter_mut() {
        change.lock = None;
    }
    // The step has been taken: a destructor panic is not reported.
    let _ = catch_unwind(AssertUnwindSafe(|| drop((dead, earlier))));
    Ok(())
}

/// The updates of a step, inline if there are few.
type Changes<'a> = SmallVec<[Change<'a>; FEW_CHANGES]>;
const FEW_CHANGES: usize = 8;

/// A table for this many updates, with cached memory unless they fit inline.
fn room<'a>(changes: usize) -> Changes<'a> {
    if changes <= FEW_CHANGES {
        return Changes::new();
    }
    let mut room = tables::with_room_for(changes);
    room.reserve_exact(changes);
    SmallVec::from_vec(room)
}

/// Drops updates with their old or rejected values. Destructor panics are not reported.
fn discard(changes: &mut Changes<'_>) {
    // A failed step still holds its locks, and a destructor may read a weight.
    for change in changes.iter_mut() {
        change.lock = None;
    }
    while let Some(change) = changes.pop() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(change)));
    }
    if changes.spilled() {
        tables::keep_room(std::mem::take(changes).into_vec());
    }
}

impl<'a> Change<'a> {
    fn new(variable: &'a Variable, source: Source<'a>, new: New) -> Self {
        Change { variable, source, lock: None, new }
    }

    fn place(&self) -> &'static Location<'static> {
        match self.source {
            Source::Delta(_) => self.variable.place(),
            Source::Update(place) => place,
        }
    }
}

/// Sorts updates by variable id. The variables must be distinct.
fn order(changes: &mut [Change<'_>]) -> Result<()> {
    if changes.is_sorted_by(|first, second| first.variable.id() < second.variable.id()) {
        return Ok(());
    }
    changes.sort_by_key(|change| change.variable.id());
    let twice = changes.windows(2).find(|pair| pair[0].variable.id() == pair[1].variable.id());
    let Some([first, second]) = twice else { return Ok(()) };
    // Sorted by location, so that the error does not depend on the order of evaluation.
    let (first, second) = (first.place().min(second.place()), first.place().max(second.place()));
    let error = Error::invalid(format!(
        "this buffer is written twice in one step, here and at {second}: combine the two into one update"
    ));
    Err(error.at("update of a buffer", first))
}

/// The result of the prepare phase besides the new values.
struct Proposed {
    /// The new states by weight id.
    shelves: Vec<(u64, Shelf)>,
    /// The estimated time of all in-place updates.
    nanoseconds: f64,
}

/// The prepare phase: computes the new values and the new states.
fn propose(changes: &mut [Change<'_>], optimizer: &dyn Optimizer, shelves: Option<&Shelves>) -> Result<Proposed> {
    let mut proposed = Proposed { shelves: Vec::new(), nanoseconds: 0.0 };
    let mut at: Option<&Variable> = None;
    let propose = || {
        let begun = {
            let deltas = |look: &mut Look<'_>| look_at(changes, look);
            optimizer.begin(&Step::new(shelves.map_or(0, |shelves| shelves.steps), &deltas))?
        };
        let optimizer = begun.as_deref().unwrap_or(optimizer);
        // The learning rate of all weights without an optimizer of their own, once known.
        let mut common: Option<Option<f64>> = None;
        for Change { variable, source, new, .. } in changes {
            let Source::Delta(delta) = *source else { continue };
            at = Some(variable);
            let own = optimizer.for_weight(WeightId(variable.id()));
            let optimizer = own.as_deref().unwrap_or(optimizer);
            let descent = match common.filter(|_| own.is_none()) {
                Some(descent) => descent,
                None => optimizer.descent().transpose()?,
            };
            if own.is_none() {
                common = Some(descent);
            }
            if let Some(descent) = descent
                && delta.can_descend(variable)
            {
                *new = if delta.descends_in_place(variable) {
                    proposed.nanoseconds += delta.cost();
                    New::Descent(descent)
                } else {
                    // User code may panic: run it on a copy, before anything is written.
                    New::Value(delta.descended(variable, descent))
                };
                continue;
            }
            let delta = &delta.made()?;
            let state = shelves.and_then(|shelves| shelves.by_weight.get(&variable.id()));
            let (value, shelf) = variable.weight.propose(variable, delta, optimizer, state)?;
            *new = New::Value(value);
            proposed.shelves.extend(shelf.map(|shelf| (variable.id(), shelf)));
        }
        Ok(())
    };
    let before = STEPPING.replace(true);
    let ended = catch_unwind(AssertUnwindSafe(propose));
    STEPPING.set(before);
    match (ended.unwrap_or_else(|payload| Err(Error::panic(payload))), at) {
        (Err(error), Some(variable)) => Err(error.at(STEP_OF_WEIGHT, variable.place())),
        (ended, _) => ended.map(|()| proposed),
    }
}

/// Applies the in-place gradient-descent updates, which cannot fail. Their total estimated time is
/// `nanoseconds`.
///
/// Each update preferably runs on the thread that used the weight in the forward pass and has it in
/// its cache, as long as all threads stay busy. An expensive update occupies all threads by itself,
/// and all of them used its weight. Such updates run one after the other, each parallelized by its
/// operation, so that no thread idles at the end.
fn descend(changes: &[Change<'_>], nanoseconds: f64) {
    if !fork_join::is_worth_while(nanoseconds) {
        return changes.iter().for_each(Change::descend);
    }
    let steps = changes.iter().filter_map(|change| {
        let (variable, _, delta) = change.descends()?;
        Some((variable.met_elsewhere(), delta.cost(), change))
    });
    let threads = current_num_threads();
    let enough = if threads <= MOST_THREADS { DEAR_NANOSECONDS * threads as f64 } else { f64::INFINITY };
    let (dear, mut steps): (Vec<_>, Vec<_>) = steps.partition(|&(_, cost, _)| cost >= enough);
    dear.iter().for_each(|(_, _, change)| change.descend());
    let nanoseconds: f64 = steps.iter().map(|(_, cost, _)| cost).sum();
    let pieces = in_pieces(&mut steps);
    let each = nanoseconds / pieces.len().max(1) as f64;
    let first = fork_join::first_of_this_thread(pieces.len(), each);
    fork_join::for_each(pieces.len(), each, |piece| {
        let piece = pieces[(piece + pieces.len() - first) % pieces.len()];
        piece.iter().for_each(|(_, _, change)| change.descend());
    });
}

/// Sorts updates by the thread that used the weight (this thread first) and by cost, and groups the
/// cheap updates of each thread.
fn in_pieces<T>(steps: &mut [(usize, f64, T)]) -> Vec<&[(usize, f64, T)]> {
    steps.sort_by_key(|&(elsewhere, cost, _)| (elsewhere, fork_join::is_worth_while(cost)));
    let mut spent = steps.first().map_or(0.0, |&(_, cost, _)| cost);
    let together = |&(before, _, _): &(usize, f64, T), &(elsewhere, cost, _): &(usize, f64, T)| {
        spent += cost;
        let together = before == elsewhere && spent < PIECE_NANOSECONDS;
        if !together {
            spent = cost;
        }
        together
    };
    steps.chunk_by(together).collect()
}

/// Cheap updates are grouped into chunks of about this time.
const PIECE_NANOSECONDS: f64 = 20_000.0;

/// A matrix product is split into one chunk per thread if it takes this long on each.
const DEAR_NANOSECONDS: f64 = 50_000.0;
/// With more threads, it is split this way only if it takes very long.
const MOST_THREADS: usize = 8;

impl Change<'_> {
    /// The in-place gradient-descent update, if this is one.
    #[inline]
    fn descends(&self) -> Option<(&Variable, f64, &AnyDelta)> {
        match (&self.new, &self.source) {
            (New::Descent(rate), Source::Delta(delta)) => Some((self.variable, *rate, delta)),
            _ => None,
        }
    }

    /// Applies it.
    #[inline]
    fn descend(&self) {
        if let Some((variable, rate, delta)) = self.descends() {
            delta.descend(variable, rate);
        }
    }
}

impl AnyDelta {
    /// Whether plain gradient descent can be applied with this delta.
    #[inline(always)]
    fn can_descend(&self, variable: &Variable) -> bool {
        self.is_number_of(variable) || self.can_descend_there(variable)
    }

    /// Whether this is an evaluated scalar for a scalar weight. Such an update cannot fail and
    /// needs no dynamic dispatch.
    #[inline(always)]
    fn is_number_of(&self, variable: &Variable) -> bool {
        matches!(self, AnyDelta::Ready(_)) && variable.is_number()
    }

    /// Decides all other cases by asking the weight or the operation.
    #[inline(never)]
    fn can_descend_there(&self, variable: &Variable) -> bool {
        match self {
            AnyDelta::Ready(delta) => variable.weight.can_descend(variable, delta),
            AnyDelta::Unmade(layer, operands) => layer.accumulates().is_some_and(|op| {
                let operands: Few<&Value> = operands.iter().collect();
                if op.is_plain() {
                    variable.look(|value| op.can_accumulate(&operands, value))
                } else {
                    op.can_accumulate(&operands, &variable.read())
                }
            }),
            _ => false,
        }
    }

    /// Whether the update is built-in code, which cannot fail midway.
    #[inline(always)]
    fn descends_in_place(&self, variable: &Variable) -> bool {
        let is_own = |layer: &AnyLayer| layer.accumulates().is_some_and(|op| op.is_plain());
        self.is_number_of(variable)
            || variable.weight.is_changed_in_place() && !matches!(self, AnyDelta::Unmade(layer, _) if !is_own(layer))
    }

    /// Applies the update in place. The caller must hold the lock of the variable.
    #[inline(always)]
    fn descend(&self, variable: &Variable, rate: f64) {
        match self {
            AnyDelta::Ready(delta) => variable.weight.descend(variable, rate, delta),
            unmade => unmade.accumulate(variable, rate),
        }
    }

    /// Accumulates a deferred delta into the weight without a temporary.
    #[inline(never)]
    fn accumulate(&self, variable: &Variable, rate: f64) {
        let AnyDelta::Unmade(layer, operands) = self else {
            unreachable!("steps are taken by deltas that were evaluated")
        };
        let op = layer.accumulates().expect("it can accumulate");
        let operands: Few<&Value> = operands.iter().collect();
        variable.change(|value| op.accumulate(&operands, -rate, value));
    }

    /// The value after the update.
    fn descended(&self, variable: &Variable, rate: f64) -> Value {
        match self {
            AnyDelta::Unmade(layer, operands) => {
                let op = layer.accumulates().expect("it can accumulate");
                let mut value = variable.read();
                op.accumulate(&operands.iter().collect::<Few<_>>(), -rate, &mut value);
                value
            }
            delta => variable.weight.descended(variable, rate, delta.expect_ready()),
        }
    }

    /// The value of this evaluated or deferred delta.
    fn made(&self) -> Result<Cow<'_, Value>> {
        match self {
            AnyDelta::Ready(value) => Ok(Cow::Borrowed(value)),
            AnyDelta::Unmade(layer, operands) => {
                let op = layer.accumulates().expect("it is an operation");
                let value = op.value(&operands.iter().collect::<Few<_>>());
                value.map(Cow::Owned).map_err(|error| error.at(op.name(), layer.site()))
            }
            _ => unreachable!("steps are taken by deltas that were evaluated"),
        }
    }

    /// The estimated time of the update, in nanoseconds.
    #[inline(always)]
    fn cost(&self) -> f64 {
        match self {
            AnyDelta::Ready(Value(Repr::F32(_) | Repr::F64(_))) => 10.0,
            AnyDelta::Unmade(layer, operands) => Self::cost_of_unmade(layer, operands),
            _ => 1_000.0,
        }
    }

    /// The estimated time of a deferred delta.
    #[inline(never)]
    fn cost_of_unmade(layer: &AnyLayer, operands: &[Value]) -> f64 {
        layer.accumulates().map_or(0.0, |op| op.cost(&operands.iter().collect::<Few<_>>()))
    }
}

/// Passes each weight and its delta to `look`.
fn look_at(changes: &[Change<'_>], look: &mut Look<'_>) -> Result<()> {
    for Change { variable, source, .. } in changes {
        let Source::Delta(delta) = source else { continue };
        let delta = &delta.made()?;
        let looked = variable.weight.look(variable, delta, &mut |chunk| look(WeightId(variable.id()), chunk));
        looked.map_err(|error| error.at(STEP_OF_WEIGHT, variable.place()))?;
    }
    Ok(())
}

/// A nested step must not wait for a lock: the holder may be waiting for this step.
#[inline]
pub(crate) fn lock(variable: &Variable, nested: bool) -> Result<MutexGuard<'_, ()>> {
    if nested { lock_at_once(variable) } else { Ok(variable.lock()) }
}

#[cold]
fn lock_at_once(variable: &Variable) -> Result<MutexGuard<'_, ()>> {
    variable.try_lock().ok_or_else(|| {
        Error::invalid(
            "an optimizer, in the middle of a step, wants to change a weight that this or another step holds",
        )
        .at(STEP_OF_WEIGHT, variable.place())
    })
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn little_steps_of_a_thread_are_together() {
        // (thread that used the weight, nanoseconds, index)
        let mut steps = [(1, 50e3, 0), (0, 9e3, 1), (1, 3e3, 2), (0, 40e3, 3), (0, 8e3, 4), (0, 7e3, 5), (1, 2e3, 6)];
        let pieces = in_pieces(&mut steps);
        let numbers: Vec<Vec<usize>> =
            pieces.iter().map(|piece| piece.iter().map(|&(_, _, number)| number).collect()).collect();
        assert_eq!(numbers, [vec![1, 4], vec![5], vec![3], vec![2, 6], vec![0]]);
        assert!(in_pieces::<()>(&mut []).is_empty());
    }
}
