//! The second phase of a training step: every weight takes its step, or none does.

use crate::error::{Error, Result};
use crate::node::{AnyLayer, Node, Variable};
use crate::optimizer::{Look, Memory, Optimizer, Sgd, Shelf, Shelves, Step};
use crate::parallel;
use crate::pass::tables::{self, Row};
use crate::pass::user_code;
use crate::pass::{self, Owner, Pass};
use crate::primitive::Few;
use crate::record::{SpanWork, Told};
use crate::reverse::AnyDelta;
use crate::snapshot::Earlier;
use crate::sync::{MutexGuard, current_num_threads, thread_local};
use crate::value::{Repr, Value};
use crate::weight::WeightId;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

thread_local! {
    /// Whether this thread is working out a step: its optimizer may evaluate something, and take
    /// steps of its own.
    static STEPPING: Cell<bool> = const { Cell::new(false) };
}

/// The operation that errors name.
const STEP_OF_WEIGHT: &str = "training step of a weight";

/// Whether this thread is working out a step, or works for a pass that was begun there.
#[inline]
pub(crate) fn is_stepping() -> bool {
    STEPPING.get() || pass::in_step()
}

/// A variable that is going to change.
struct Change<'a> {
    variable: &'a Variable,
    /// Says what the new value is made of.
    source: Source<'a>,
    lock: Option<MutexGuard<'a, ()>>,
    new: New,
}

/// The memory of a change, which borrows: what is kept of a table of them.
pub(crate) type Words = [usize; size_of::<Change<'static>>() / size_of::<usize>()];

/// What becomes of a variable.
enum New {
    /// It is not known yet.
    Unknown,
    /// The new value, and then the old one.
    Value(Value),
    /// A step of plain gradient descent, with this rate, which is taken in place.
    Descent(f64),
}

enum Source<'a> {
    /// A weight: the optimizer's answer to this delta.
    Delta(&'a AnyDelta),
    /// A buffer: the value of a layer, which was written at this place.
    Update(&'static Location<'static>),
}

/// The new value of a buffer, as a pass has computed it.
pub(crate) struct Update {
    pub(crate) buffer: AnyLayer,
    pub(crate) value: Value,
    pub(crate) place: &'static Location<'static>,
}

/// Steps each of these weights, which must be different, by its delta, and writes the buffers that
/// these passes have updated.
///
/// First the optimizer works out new values and new state for all of them in fresh copies; whatever
/// goes wrong there, an error or a panic, leaves everything as it was. Then the copies take their
/// places, which cannot fail. The locks of all variables are held meanwhile, taken in one order
/// everywhere, so two commits on shared weights never interleave.
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

/// The same, when the pass is going to end with it: so weights need not outlive their steps as
/// values of the pass.
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

/// Drops the deltas after the step: it has been taken then, or has failed, and a destructor that
/// panics has nobody to tell.
fn discarding<D: Row>(deltas: Vec<D>, step: impl FnOnce(&[D]) -> Result<()>) -> Result<()> {
    let taken = step(&deltas);
    user_code::ignore_panic(|| tables::put_away(deltas));
    taken
}

fn commit_with<L: Deref<Target = Node>>(
    optimizer: &dyn Optimizer,
    deltas: &[(L, AnyDelta)],
    updates: &[Update],
    passes: &[&Arc<Pass>],
) -> Result<()> {
    let mut changes = room(deltas.len() + updates.len());
    // a walk from the root mostly meets last what was made first
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
        // before somebody who records the step is told of it: it may hold its locks still
        discard(&mut changes);
        ended
    })?;
    if !updates.is_empty() {
        passes.iter().for_each(|pass| pass.after_commit());
    }
    Ok(())
}

/// Takes a step, and has it recorded by the pass that takes it, or else by one of those that it is
/// made of.
fn recorded<R>(passes: &[&Arc<Pass>], step: impl FnOnce() -> R) -> R {
    pass::with_current(|current| {
        match current.into_iter().chain(passes.iter().copied()).find(|pass| pass.is_watched()) {
            Some(pass) => pass.during(SpanWork::Commit, None, || Told::NOBODY, step),
            None => step(),
        }
    })
}

/// Writes values into variables, which must be different, all at once.
#[track_caller]
pub(crate) fn write(values: Vec<(AnyLayer, Value)>) -> Result<()> {
    let place = Location::caller();
    let changes = values.iter().filter_map(|(leaf, value)| {
        Some(Change::new(leaf.as_variable()?, Source::Update(place), New::Value(value.clone())))
    });
    let mut changes: Changes<'_> = changes.collect();
    // nobody asks the optimizer
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
    let memory = user_code::run(|| optimizer.memory())?;
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
    // the old state goes when all is done, as the old values do: its destructor may be the user's
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
    // the step has been taken: a destructor of an old value that panics has nobody to tell
    user_code::ignore_panic(|| drop((dead, earlier)));
    Ok(())
}

/// The changes of a step. Few of them lie on the stack.
type Changes<'a> = SmallVec<[Change<'a>; FEW_CHANGES]>;
const FEW_CHANGES: usize = 8;

/// A table for so many changes, unless they are few. As they borrow, what is kept of it between
/// steps is the memory.
fn room<'a>(changes: usize) -> Changes<'a> {
    if changes <= FEW_CHANGES {
        return Changes::new();
    }
    let mut room = tables::with_room_for(changes);
    room.reserve_exact(changes);
    SmallVec::from_vec(room)
}

/// Drops changes, and with them the old values, or those that were refused. A destructor that
/// panics has nobody to tell, nor have those after it.
fn discard(changes: &mut Changes<'_>) {
    // a step that was refused holds its locks still, and a destructor may look at a weight
    for change in changes.iter_mut() {
        change.lock = None;
    }
    while let Some(change) = changes.pop() {
        user_code::ignore_panic(|| drop(change));
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

/// Orders the changes by the numbers of their variables, which must be different.
fn order(changes: &mut [Change<'_>]) -> Result<()> {
    if changes.is_sorted_by(|first, second| first.variable.id() < second.variable.id()) {
        return Ok(());
    }
    changes.sort_by_key(|change| change.variable.id());
    let twice = changes.windows(2).find(|pair| pair[0].variable.id() == pair[1].variable.id());
    let Some([first, second]) = twice else { return Ok(()) };
    // whichever was evaluated first
    let (first, second) = (first.place().min(second.place()), first.place().max(second.place()));
    let error = Error::invalid(format!(
        "this buffer is written twice in one step, here and at {second}: combine the two into one update"
    ));
    Err(error.at("update of a buffer", first))
}

/// What an optimizer proposes, besides new values.
struct Proposed {
    /// The new states, by the numbers of their weights.
    shelves: Vec<(u64, Shelf)>,
    /// About how long those steps take that are taken in place.
    nanoseconds: f64,
}

/// Works out the new values and the new states.
fn propose(changes: &mut [Change<'_>], optimizer: &dyn Optimizer, shelves: Option<&Shelves>) -> Result<Proposed> {
    let mut proposed = Proposed { shelves: Vec::new(), nanoseconds: 0.0 };
    let mut at: Option<&Variable> = None;
    let propose = || {
        let begun = {
            let deltas = |look: &mut Look<'_>| look_at(changes, look);
            optimizer.begin(&Step::new(shelves.map_or(0, |shelves| shelves.steps), &deltas))?
        };
        let optimizer = begun.as_deref().unwrap_or(optimizer);
        // for all weights that have no optimizer of their own
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
                    // code of the user's may panic: on a copy, before anything is written
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
    let ended = user_code::run_fallible(propose);
    STEPPING.set(before);
    match (ended, at) {
        (Err(error), Some(variable)) => Err(error.at(STEP_OF_WEIGHT, variable.place())),
        (ended, _) => ended.map(|()| proposed),
    }
}

/// Takes the steps of plain gradient descent that are in place and cannot fail; all of them
/// together take about so long.
///
/// Each is taken by the thread that has met the weight on the way forward, and has it in its
/// caches, as far as that keeps all threads busy. Where a step is so dear that it keeps all of them
/// busy by itself, they have all met the weight: such steps are taken one after the other, each
/// divided by its operation, so that nobody waits for long for the last pieces of several.
fn descend(changes: &[Change<'_>], nanoseconds: f64) {
    if !parallel::is_worth_while(nanoseconds) {
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
    let first = parallel::first_of_this_thread(pieces.len(), each);
    parallel::for_each(pieces.len(), each, |piece| {
        let piece = pieces[(piece + pieces.len() - first) % pieces.len()];
        piece.iter().for_each(|(_, _, change)| change.descend());
    });
}

/// Orders steps by the threads that have met the weights, this one first, and divides them: little
/// ones of one thread are together, and first.
fn in_pieces<T>(steps: &mut [(usize, f64, T)]) -> Vec<&[(usize, f64, T)]> {
    steps.sort_by_key(|&(elsewhere, cost, _)| (elsewhere, parallel::is_worth_while(cost)));
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

/// Little steps are given to threads as many at a time as take about so long.
const PIECE_NANOSECONDS: f64 = 20_000.0;

/// A product has a piece for each thread if it takes so long for each of them.
const DEAR_NANOSECONDS: f64 = 50_000.0;
/// More pieces it has only where it takes very long.
const MOST_THREADS: usize = 8;

impl Change<'_> {
    /// The step of plain gradient descent, if it is one.
    #[inline]
    fn descends(&self) -> Option<(&Variable, f64, &AnyDelta)> {
        match (&self.new, &self.source) {
            (New::Descent(rate), Source::Delta(delta)) => Some((self.variable, *rate, delta)),
            _ => None,
        }
    }

    /// Takes it.
    #[inline]
    fn descend(&self) {
        if let Some((variable, rate, delta)) = self.descends() {
            delta.descend(variable, rate);
        }
    }
}

impl AnyDelta {
    /// Whether a step of plain gradient descent can be taken by this delta.
    #[inline(always)]
    fn can_descend(&self, variable: &Variable) -> bool {
        self.is_number_of(variable) || self.can_descend_there(variable)
    }

    /// Whether it is a plain number that was made, as the weight is one. Such a step cannot fail,
    /// and asks nobody.
    #[inline(always)]
    fn is_number_of(&self, variable: &Variable) -> bool {
        matches!(self, AnyDelta::Ready(_)) && variable.is_number()
    }

    /// The same for what is not such a number: the weight or the operation is asked.
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

    /// Whether it is the library's own, which cannot fail in the middle.
    #[inline(always)]
    fn descends_in_place(&self, variable: &Variable) -> bool {
        let is_own = |layer: &AnyLayer| layer.accumulates().is_some_and(|op| op.is_plain());
        self.is_number_of(variable)
            || variable.weight.is_changed_in_place() && !matches!(self, AnyDelta::Unmade(layer, _) if !is_own(layer))
    }

    /// Takes it. Whoever calls holds the lock of the variable.
    #[inline(always)]
    fn descend(&self, variable: &Variable, rate: f64) {
        match self {
            AnyDelta::Ready(delta) => variable.weight.descend(variable, rate, delta),
            unmade => unmade.accumulate(variable, rate),
        }
    }

    /// The same for a delta that goes into the weight as it is made.
    #[inline(never)]
    fn accumulate(&self, variable: &Variable, rate: f64) {
        let AnyDelta::Unmade(layer, operands) = self else {
            unreachable!("steps are taken by deltas that were evaluated")
        };
        let op = layer.accumulates().expect("it can accumulate");
        let operands: Few<&Value> = operands.iter().collect();
        variable.change(|value| op.accumulate(&operands, -rate, value));
    }

    /// The value after it.
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

    /// The value of this delta, which has been evaluated.
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

    /// A rough estimate of the time for a step by it, in nanoseconds.
    #[inline(always)]
    fn cost(&self) -> f64 {
        match self {
            AnyDelta::Ready(Value(Repr::F32(_) | Repr::F64(_))) => 10.0,
            AnyDelta::Unmade(layer, operands) => Self::cost_of_unmade(layer, operands),
            _ => 1_000.0,
        }
    }

    /// That of the operation which goes into the weight.
    #[inline(never)]
    fn cost_of_unmade(layer: &AnyLayer, operands: &[Value]) -> f64 {
        layer.accumulates().map_or(0.0, |op| op.cost(&operands.iter().collect::<Few<_>>()))
    }
}

/// Shows every weight and its delta.
fn look_at(changes: &[Change<'_>], look: &mut Look<'_>) -> Result<()> {
    for Change { variable, source, .. } in changes {
        let Source::Delta(delta) = source else { continue };
        let delta = &delta.made()?;
        let looked = variable.weight.look(variable, delta, &mut |chunk| look(WeightId(variable.id()), chunk));
        looked.map_err(|error| error.at(STEP_OF_WEIGHT, variable.place()))?;
    }
    Ok(())
}

/// A step inside a step waits for nobody: whom it waits for may wait for it.
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
        // who has met the weight, nanoseconds, its number
        let mut steps = [(1, 50e3, 0), (0, 9e3, 1), (1, 3e3, 2), (0, 40e3, 3), (0, 8e3, 4), (0, 7e3, 5), (1, 2e3, 6)];
        let pieces = in_pieces(&mut steps);
        let numbers: Vec<Vec<usize>> =
            pieces.iter().map(|piece| piece.iter().map(|&(_, _, number)| number).collect()).collect();
        assert_eq!(numbers, [vec![1, 4], vec![5], vec![3], vec![2, 6], vec![0]]);
        assert!(in_pieces::<()>(&mut []).is_empty());
    }
}
