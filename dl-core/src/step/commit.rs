//! The commit of a training step: updates all variables of the step, or none.

mod in_place;
mod write;

pub(crate) use write::{write, write_each};

use crate::autodiff::cotangent::AnyDelta;
use crate::error::{Error, Result};
use crate::exec::buffer_update::Update;
use crate::exec::optimizer_step::{IN_OPTIMIZER_STEP, in_optimizer_step};
use crate::exec::snapshot::{LiveSnapshots, Snapshot};
use crate::exec::vec_pool::Row;
use crate::exec::{self, Owner, Pass, user_code, vec_pool};
use crate::graph::chunk::Chunk;
use crate::graph::lazy_chunk::{LazyChunk, PlacedChunk};
use crate::graph::node::Node;
use crate::graph::node_ref::NodeRef;
use crate::graph::participant::Participant;
use crate::graph::training_step::{ChunkVisitor, STEP_OF_WEIGHT, Step};
use crate::graph::value::Value;
use crate::graph::variable::Variable;
use crate::graph::weight::{Slot, UpdateRule, WeightId, WeightState};
use crate::record::{SpanWork, TraceNodeId};
use crate::step::memory::{MemoryGuard, StateMap};
use crate::step::optimizer::Optimizer;
use crate::step::step_delta::{Evaluated, StepDelta};
use dl_parallel::fork_join;
use dl_parallel::sync::MutexGuard;
use smallvec::SmallVec;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

/// A variable to be updated.
struct PendingUpdate<'a> {
    variable: &'a Variable,
    /// The origin of the new value.
    source: Source<'a>,
    lock: Option<MutexGuard<'a, ()>>,
    action: Action,
}

/// An element of raw storage for updates. Updates borrow from the step, so tables of them are
/// cached as untyped memory.
type RawUpdate = [usize; size_of::<PendingUpdate<'static>>() / size_of::<usize>()];

vec_pool::rows! {
    RAW_UPDATES: RawUpdate;
}

/// The new value of a variable.
enum Action {
    /// Not computed yet.
    Unknown,
    /// The new value before the swap, the old value after it.
    Replace(Value),
    /// An in-place gradient-descent update with this learning rate.
    InPlace(f64),
}

#[derive(Clone, Copy)]
enum Source<'a> {
    /// A weight: the new value is computed by the optimizer from this delta.
    Delta(StepDelta<'a>),
    /// A buffer: the new value is that of a layer, built at this source location.
    Buffer(&'static Location<'static>),
}

/// Updates these distinct weights by their deltas, and writes the buffer updates of these passes.
///
/// The commit has two phases. Prepare: the optimizer computes new values and new state into fresh
/// copies, and then the participants vote; an error or a panic leaves everything unchanged. Swap:
/// the copies replace the old values, which cannot fail. The locks of all variables are held
/// throughout and are acquired in id order, so concurrent commits neither deadlock nor interleave.
#[inline]
pub(crate) fn commit<L: Deref<Target = Node>, D: Evaluated>(
    optimizer: &dyn Optimizer,
    deltas: Vec<(L, D)>,
    passes: &[Owner],
    participants: &[Arc<dyn Participant>],
) -> Result<()>
where
    (L, D): Row,
{
    then_drop_deltas(deltas, |deltas| {
        let mut updates: Vec<Update> = Vec::new();
        for pass in passes {
            pass.before_commit(&mut updates)?;
        }
        commit_with(optimizer, deltas, &updates, passes, participants)
    })
}

/// Does the same as the last action of the pass, so the pass can release its values first and
/// in-place updates need not copy weights that the pass still refers to.
pub(crate) fn commit_and_end(
    optimizer: &dyn Optimizer,
    deltas: Vec<(NodeRef, AnyDelta)>,
    pass: &Arc<Pass>,
    participants: &[Arc<dyn Participant>],
) -> Result<()> {
    then_drop_deltas(deltas, |deltas| {
        let mut updates: Vec<Update> = Vec::new();
        pass.before_commit(&mut updates)?;
        if optimizer.descent().is_some() {
            pass.let_go_of_values();
        }
        commit_with(optimizer, deltas, &updates, &[pass], participants)
    })
}

/// Drops the deltas after the step. The step has been taken or has failed by then: a destructor
/// panic is not reported.
#[inline]
fn then_drop_deltas<D: Row, R>(deltas: Vec<D>, step: impl FnOnce(&[D]) -> Result<R>) -> Result<R> {
    let taken = step(&deltas);
    user_code::ignore_panic(|| vec_pool::recycle(deltas));
    taken
}

#[inline]
fn commit_with<L: Deref<Target = Node>, D: Evaluated, P: Deref<Target = Arc<Pass>>>(
    optimizer: &dyn Optimizer,
    deltas: &[(L, D)],
    updates: &[Update],
    passes: &[P],
    participants: &[Arc<dyn Participant>],
) -> Result<()> {
    let mut pending = updates_with_capacity(deltas.len() + updates.len());
    add_weights(&mut pending, deltas);
    for update in updates {
        if let Some(variable) = update.buffer.as_variable() {
            let action = Action::Replace(update.value.clone());
            pending.push(PendingUpdate::new(variable, Source::Buffer(update.place), action));
        }
    }
    let only_pass = if let [pass] = passes { Some(&**pass) } else { None };
    let ended = with_recorded_span(passes, || commit_updates(optimizer, &mut pending, only_pass, participants));
    // It owns nothing, but its destructor would be called.
    std::mem::forget(pending);
    ended?;
    if !updates.is_empty() {
        passes.iter().for_each(|pass| pass.after_commit());
    }
    Ok(())
}

/// Adds the updates of the weights of these deltas that are not frozen. The table is not returned by
/// value: that would copy its inline part.
#[inline]
fn add_weights<'a, L: Deref<Target = Node>, D: Evaluated>(pending: &mut PendingUpdates<'a>, deltas: &'a [(L, D)]) {
    // A traversal from the root mostly finds the oldest weight last, so this order is nearly by id.
    pending.extend(deltas.iter().rev().filter_map(|(layer, delta)| {
        let variable = layer.as_variable().filter(|variable| !variable.frozen())?;
        Some(PendingUpdate::new(variable, Source::Delta(delta.evaluated()?), Action::Unknown))
    }));
}

/// A snapshot in which these distinct weights have the values that a step would give them. It is
/// the first phase of a commit.
pub(crate) fn preview<L: Deref<Target = Node>>(
    optimizer: &dyn Optimizer,
    deltas: Vec<(L, AnyDelta)>,
) -> Result<Snapshot>
where
    (L, AnyDelta): Row,
{
    then_drop_deltas(deltas, |deltas| {
        let mut pending = updates_with_capacity(deltas.len());
        add_weights(&mut pending, deltas);
        let previewed = preview_updates(optimizer, &mut pending);
        unlock(&mut pending);
        drop_updates(&mut pending);
        previewed
    })
}

fn preview_updates(optimizer: &dyn Optimizer, pending: &mut [PendingUpdate<'_>]) -> Result<Snapshot> {
    lock_all(pending)?;
    let mut prepared = Prepared::default();
    prepare(pending, optimizer, &mut prepared)?;
    let value = |update: &PendingUpdate<'_>| {
        let value = match (&update.action, &update.source) {
            (Action::Replace(value), _) => value.clone(),
            (Action::InPlace(rate), Source::Delta(delta)) => delta.sgd_copy(update.variable, *rate),
            _ => unreachable!("a new value was prepared"),
        };
        (update.variable.id(), value)
    };
    user_code::run(|| Snapshot::with(pending.iter().map(value).collect()))
}

/// Takes a step, recorded by the current pass or else by one of the passes of the step.
fn with_recorded_span<R>(passes: &[impl Deref<Target = Arc<Pass>>], step: impl FnOnce() -> R) -> R {
    exec::with_current(|current| {
        match current.into_iter().chain(passes.iter().map(|pass| &**pass)).find(|pass| pass.is_watched()) {
            Some(pass) => pass.during(SpanWork::Commit, None, || TraceNodeId::NONE, step),
            None => step(),
        }
    })
}

/// Takes the step, and drops the updates. The locks are released before that: a destructor may be
/// user code that reads a weight.
fn commit_updates(
    optimizer: &dyn Optimizer,
    pending: &mut PendingUpdates<'_>,
    only_pass: Option<&Arc<Pass>>,
    participants: &[Arc<dyn Participant>],
) -> Result<()> {
    let ended = prepare_and_swap(optimizer, pending, only_pass, participants);
    if ended.is_err() {
        unlock(pending);
    }
    drop_updates(pending);
    ended
}

#[inline(always)]
fn prepare_and_swap(
    optimizer: &dyn Optimizer,
    pending: &mut [PendingUpdate<'_>],
    only_pass: Option<&Arc<Pass>>,
    participants: &[Arc<dyn Participant>],
) -> Result<()> {
    lock_all(pending)?;
    let mut prepared = Prepared::default();
    prepare(pending, optimizer, &mut prepared)?;
    if participants.is_empty() && prepared.participants.is_empty() {
        swap(pending, prepared, only_pass, || ());
        return Ok(());
    }
    vote_and_swap(pending, prepared, only_pass, participants)
}

/// Swaps, with the changes of the participants, if all of them agree.
#[cold]
fn vote_and_swap(
    pending: &mut [PendingUpdate<'_>],
    mut prepared: Prepared<'_>,
    only_pass: Option<&Arc<Pass>>,
    participants: &[Arc<dyn Participant>],
) -> Result<()> {
    let of_weights = std::mem::take(&mut prepared.participants);
    let changes = vote(pending, &prepared, [&of_weights, participants])?;
    let change_all = || within_step(|| changes.into_iter().for_each(user_code::ignore_panic));
    swap(pending, prepared, only_pass, change_all);
    Ok(())
}

/// The changes that the participants make in the swap phase, if all of them agree.
fn vote<'p>(
    pending: &[PendingUpdate<'_>],
    prepared: &Prepared<'_>,
    participants: [&'p [Arc<dyn Participant>]; 2],
) -> Result<Vec<Box<dyn FnOnce() + 'p>>> {
    let deltas = |only_lazy: bool, visit: &mut ChunkVisitor<'_>| visit_deltas(pending, only_lazy, visit);
    let step = Step::new(prepared.steps(), &deltas);
    within_step(|| {
        user_code::run_fallible(|| {
            participants.into_iter().flatten().map(|participant| participant.vote(&step)).collect()
        })
    })
}

/// Runs user code inside of a step: a nested step must not wait.
fn within_step<R>(run: impl FnOnce() -> R) -> R {
    let before = IN_OPTIMIZER_STEP.replace(true);
    let result = run();
    IN_OPTIMIZER_STEP.set(before);
    result
}

/// Locks the variables, which must be distinct, in the order of their ids. Sorts the updates if they
/// are in another order.
#[inline(always)]
fn lock_all(pending: &mut [PendingUpdate<'_>]) -> Result<()> {
    let nested = in_optimizer_step();
    let mut last = 0; // below all ids
    for update in pending.iter_mut() {
        let id = update.variable.id();
        if nested || id <= last {
            return sort_and_lock(pending, nested);
        }
        update.lock = Some(update.variable.lock());
        last = id;
    }
    Ok(())
}

/// Begins anew with updates that are not in the order of ids, or in a nested step.
#[cold]
fn sort_and_lock(pending: &mut [PendingUpdate<'_>], nested: bool) -> Result<()> {
    unlock(pending);
    sort_by_variable(pending)?;
    for update in pending {
        update.lock = Some(lock(update.variable, nested)?);
    }
    Ok(())
}

/// The swap phase: stores all new values and states, calls `change_others`, and unlocks.
#[inline(always)]
fn swap(
    pending: &mut [PendingUpdate<'_>],
    prepared: Prepared<'_>,
    only_pass: Option<&Arc<Pass>>,
    change_others: impl FnOnce(),
) {
    let snapshots = LiveSnapshots::collect();
    snapshots.save(pending.iter().map(|update| update.variable));
    match only_pass {
        Some(pass) => pass.committing(|| store(pending, prepared.nanoseconds)),
        None => store(pending, prepared.nanoseconds),
    }
    let dead = prepared.memory.map(NewStates::write);
    change_others();
    unlock(pending);
    if dead.is_some() || !snapshots.is_empty() {
        // The step has been taken: a destructor panic is not reported.
        user_code::ignore_panic(|| drop((dead, snapshots)));
    }
}

/// Stores all new values.
#[inline(always)]
fn store(pending: &mut [PendingUpdate<'_>], nanoseconds: f64) {
    let shared = fork_join::is_worth_sharing(nanoseconds);
    for update in pending.iter_mut() {
        match &mut update.action {
            Action::Replace(value) => update.variable.exchange(value),
            _ if shared => {}
            _ => update.apply(),
        }
    }
    if shared {
        in_place::apply_all(pending);
    }
}

#[inline(always)]
fn unlock(pending: &mut [PendingUpdate<'_>]) {
    for update in pending {
        update.lock = None;
    }
}

/// The updates of a step, inline if there are few.
type PendingUpdates<'a> = SmallVec<[PendingUpdate<'a>; INLINE_UPDATES]>;
const INLINE_UPDATES: usize = 8;

/// A table for this many updates, with cached memory unless they fit inline.
#[inline]
fn updates_with_capacity<'a>(pending: usize) -> PendingUpdates<'a> {
    if pending <= INLINE_UPDATES { PendingUpdates::new() } else { SmallVec::from_vec(many_updates(pending)) }
}

#[cold]
fn many_updates<'a>(pending: usize) -> Vec<PendingUpdate<'a>> {
    let mut room = vec_pool::with_room_of::<RawUpdate, _>(pending);
    room.reserve_exact(pending);
    room
}

/// Drops the old or rejected values of unlocked updates, which then own nothing. Destructor panics
/// are not reported.
#[inline(always)]
fn drop_updates(pending: &mut PendingUpdates<'_>) {
    let mut left = pending.iter_mut();
    // A panic ends the inner loop after it has taken that update.
    while left.len() > 0 {
        user_code::ignore_panic(|| left.by_ref().for_each(|update| update.action = Action::Unknown));
    }
    if pending.spilled() {
        vec_pool::keep_room_of::<RawUpdate, _>(std::mem::take(pending).into_vec());
    }
}

impl<'a> PendingUpdate<'a> {
    fn new(variable: &'a Variable, source: Source<'a>, action: Action) -> Self {
        PendingUpdate { variable, source, lock: None, action }
    }

    /// Applies an in-place update. The caller must hold the lock of the variable.
    #[inline(never)]
    fn apply(&self) {
        let (&Action::InPlace(rate), Source::Delta(delta)) = (&self.action, self.source) else {
            unreachable!("a new value was prepared")
        };
        delta.sgd_in_place(self.variable, rate);
    }

    fn place(&self) -> &'static Location<'static> {
        match self.source {
            Source::Delta(_) => self.variable.place(),
            Source::Buffer(place) => place,
        }
    }
}

/// Sorts updates by variable id. The variables must be distinct.
fn sort_by_variable(pending: &mut [PendingUpdate<'_>]) -> Result<()> {
    pending.sort_by_key(|update| update.variable.id());
    let twice = pending.windows(2).find(|pair| pair[0].variable.id() == pair[1].variable.id());
    let Some([first, second]) = twice else { return Ok(()) };
    // Sorted by location, so that the error does not depend on the order of evaluation.
    let (first, second) = (first.place().min(second.place()), first.place().max(second.place()));
    let error = Error::invalid(format!(
        "this buffer is written twice in one step, here and at {second}: combine the two into one update"
    ));
    Err(error.at("update of a buffer", first))
}

/// The result of the prepare phase besides the new values.
#[derive(Default)]
struct Prepared<'a> {
    memory: Option<NewStates<'a>>,
    /// The estimated time of all in-place updates.
    nanoseconds: f64,
    /// Those of weights that stand for others elsewhere. They vote before the enlisted ones.
    participants: Vec<Arc<dyn Participant>>,
}

/// The new states of the weights by id, and the locked memory in which they replace the old ones.
struct NewStates<'a> {
    memory: MemoryGuard<'a>,
    states: Vec<(u64, WeightState)>,
}

impl NewStates<'_> {
    /// Writes the states. Returns the old ones, and those of dropped weights.
    #[inline(never)]
    fn write(mut self) -> Vec<WeightState> {
        let StateMap { steps, by_weight } = &mut *self.memory;
        let new = self.states.len();
        let mut dead: Vec<_> = self.states.into_iter().filter_map(|(id, state)| by_weight.insert(id, state)).collect();
        if dead.len() < new {
            dead.extend(by_weight.extract_if(|_, state| state.owner.strong_count() == 0).map(|dead| dead.1));
        }
        *steps += 1;
        dead
    }
}

/// The prepare phase: locks the memory, and computes the new values and the new states.
fn prepare<'a>(
    pending: &mut [PendingUpdate<'_>],
    optimizer: &'a dyn Optimizer,
    prepared: &mut Prepared<'a>,
) -> Result<()> {
    let mut at: Option<&Variable> = None;
    let before = IN_OPTIMIZER_STEP.get();
    let prepare = || {
        if let Some(memory) = optimizer.memory() {
            prepared.memory = Some(NewStates { memory: memory.lock()?, states: Vec::new() });
        }
        // Must follow the lock, which a step waits for unless it is nested.
        IN_OPTIMIZER_STEP.set(true);
        let steps = prepared.steps();
        let begun = {
            let deltas = |only_lazy: bool, visit: &mut ChunkVisitor<'_>| visit_deltas(pending, only_lazy, visit);
            optimizer.begin(&Step::new(steps, &deltas))?
        };
        let optimizer = begun.as_deref().unwrap_or(optimizer);
        // The learning rate of all weights without an optimizer of their own, once known.
        let mut common_rate: Option<Option<f64>> = None;
        for PendingUpdate { variable, source, action, .. } in pending {
            let Source::Delta(delta) = source else { continue };
            at = Some(variable);
            if let Some(own) = optimizer.for_weight(WeightId(variable.id())) {
                *action = prepared.action(variable, *delta, own.descent().transpose()?, &*own)?;
                continue;
            }
            let descent = match common_rate {
                Some(descent) => descent,
                None => *common_rate.insert(optimizer.descent().transpose()?),
            };
            if let Some(rate) = descent
                && delta.descended(
                    variable,
                    rate,
                    #[inline(always)]
                    |number| *action = Action::Replace(number),
                )
            {
                continue;
            }
            *action = prepared.action(variable, *delta, descent, optimizer)?;
        }
        Ok(())
    };
    let ended = user_code::run_fallible(prepare).map_err(|error| match at {
        Some(variable) => error.at(STEP_OF_WEIGHT, variable.place()),
        None => by_optimizer(error, optimizer),
    });
    IN_OPTIMIZER_STEP.set(before);
    ended
}

impl Prepared<'_> {
    /// The number of steps taken with the memory of the optimizer.
    fn steps(&self) -> u64 {
        self.memory.as_ref().map_or(0, |new| new.memory.steps)
    }

    /// What the swap phase does with a weight, given the learning rate if the optimizer is plain
    /// gradient descent.
    #[inline(never)]
    fn action(
        &mut self,
        variable: &Variable,
        delta: StepDelta<'_>,
        descent: Option<f64>,
        optimizer: &dyn Optimizer,
    ) -> Result<Action> {
        if let Some(rate) = descent
            && delta.supports_sgd(variable)
        {
            if delta.is_sgd_in_place(variable) {
                self.nanoseconds += delta.cost();
                return Ok(Action::InPlace(rate));
            }
            // User code may panic: run it on a copy, before anything is written.
            return Ok(Action::Replace(delta.sgd_copy(variable, rate)));
        }
        let value = &delta.value()?;
        let state = self.memory.as_ref().and_then(|new| new.memory.by_weight.get(&variable.id()));
        let participants = &mut self.participants;
        let update = || variable.weight().prepare(variable, value, &Rule(optimizer), state, participants);
        let (value, state) =
            user_code::run_fallible(update).map_err(|error| match (variable.check_delta(value), delta) {
                (Err(error), StepDelta::Unmade(layer, _)) => error.at(layer.name(), layer.site()),
                (Err(error), _) => error,
                (Ok(()), _) => by_optimizer(error, optimizer),
            })?;
        if let (Some(new), Some(state)) = (&mut self.memory, state) {
            new.states.push((variable.id(), state));
        }
        Ok(Action::Replace(value))
    }
}

/// A panic or a shape error of the optimizer, with its name. An error with a place is that of a
/// delta, which the optimizer passes on.
#[cold]
fn by_optimizer(error: Error, optimizer: &dyn Optimizer) -> Error {
    if error.place().is_some() || !(error.is_panic() || error.is_shape()) {
        return error;
    }
    user_code::run(|| optimizer.kind()).map_or(error.clone(), |name| error.context(format_args!("optimizer {name}")))
}

/// The update rule of an optimizer.
struct Rule<'o>(&'o dyn Optimizer);

impl UpdateRule for Rule<'_> {
    fn slots(&self) -> &[Slot] {
        self.0.slots()
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        self.0.step(chunk, steps)
    }

    fn step_lazy(&self, chunk: &mut LazyChunk, steps: u64) -> Result<()> {
        self.0.step_lazy(chunk, steps)
    }
}

/// Passes each weight and its delta to `visit`; if `only_lazy`, only those that are not on the
/// host.
fn visit_deltas(pending: &[PendingUpdate<'_>], only_lazy: bool, visit: &mut ChunkVisitor<'_>) -> Result<()> {
    for PendingUpdate { variable, source, .. } in pending {
        let Source::Delta(delta) = source else { continue };
        let delta = &delta.value()?;
        let visit = &mut |chunk: PlacedChunk<'_>| visit(WeightId(variable.id()), chunk);
        let visited = variable.weight().visit_chunks(variable, delta, only_lazy, visit);
        visited.map_err(|error| error.at(STEP_OF_WEIGHT, variable.place()))?;
    }
    Ok(())
}

/// A nested step must not wait for a lock: the holder may be waiting for this step.
#[inline]
pub(crate) fn lock(variable: &Variable, nested: bool) -> Result<MutexGuard<'_, ()>> {
    if nested { try_lock(variable) } else { Ok(variable.lock()) }
}

#[cold]
fn try_lock(variable: &Variable) -> Result<MutexGuard<'_, ()>> {
    variable.try_lock().ok_or_else(|| {
        Error::invalid(
            "during a step or a load, code that it calls tried to change a weight that this or another step holds",
        )
        .at(STEP_OF_WEIGHT, variable.place())
    })
}
