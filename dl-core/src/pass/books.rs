//! The books of a pass: an entry for each node, its value, who waits for it, and what is ready to
//! run.
//!
//! What cannot be evaluated at once when it is entered (see `discover.rs`) waits until its last
//! operand is done; then it is queued (`schedule.rs`).

use super::chain::Chains;
use super::claim::Seat;
use super::counters::{Count, Counters};
use super::drivers::Drivers;
use super::entry::{Entry, Links, NONE, Seen, State, Status, Waiting};
use super::queue::Queue;
use super::settings::Settings;
use super::visits::Visits;
use super::work::Task;
use super::{Keep, Pass, discover, tables};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::node::{AnyLayer, Held, Node, Variable};
use crate::parallel::Crew;
use crate::record::Log;
use crate::reverse::Arrived;
use crate::seed::{Position, Seed};
use crate::snapshot::Snapshot;
use crate::tape::AnyBackward;
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::panic::Location;
use std::sync::{Arc, Weak};
use std::task::Waker;

pub(crate) struct Books {
    pub(crate) keep: Keep,
    /// Those of its settings that are asked for under the lock.
    seed: Option<u64>,
    pub(super) snapshot: Option<Snapshot>,
    /// The pass whose values of weights this one has, because it evaluates a derivative there.
    pub(super) of_around: Option<Weak<Pass>>,
    pub(super) count: Count,
    pub(super) seat: Seat,
    /// Who is told of entries and values that go.
    pub(super) log: Option<Arc<Log>>,
    pub(super) entries: Vec<Entry>,
    /// Entries whose nodes are gone, for reuse.
    pub(super) vacant: Vec<u32>,
    pub(super) links: Vec<Links>,
    pub(super) vacant_links: Vec<u32>,
    /// Handles that keep all nodes of the entries alive, directly or from above.
    pub(super) roots: Vec<(AnyLayer, u32)>,
    /// Nodes that another live pass has claimed, by address.
    pub(super) side: FxHashMap<usize, u32>,
    /// The entries of weights, by the addresses of their variables.
    pub(super) weights: Vec<(usize, u32)>,
    /// The same, sorted out, once weights were met that may have been met under another leaf.
    pub(super) weights_by_address: FxHashMap<usize, u32>,
    /// Which leaf of its weight the first one was that was met, and whether there were others: most
    /// graphs are built by one thread.
    pub(super) leaf: Option<u8>,
    pub(super) leaves_differ: bool,
    /// Who waits for whom: a list for each entry, threaded through one table.
    pub(super) waiting: Vec<Waiting>,
    pub(super) unused_waiting: u32,
    /// Which operations are run together.
    pub(super) chains: Chains,
    /// How many nodes have no entry any more, or never had one, and how many nodes were not
    /// evaluated when they were entered.
    pub(super) refilled: usize,
    pub(super) others: usize,
    /// How many of these are constants.
    pub(super) constants: usize,
    /// Who is to be woken as soon as the lock is released.
    pub(super) woken: Vec<Waker>,
    pub(super) wakers: FxHashMap<u32, Vec<Waker>>,
    /// The futures of dynamic nodes that wait.
    pub(super) tasks: FxHashMap<u32, Task>,
    pub(super) backwards: FxHashMap<u32, Arc<dyn AnyBackward>>,
    pub(super) queue: Queue,
    /// How many threads hold the numbers of slots while they do not hold the lock: they run a job,
    /// or have suspended a traversal.
    pub(super) running: usize,
    /// Whether the last owner is gone.
    pub(super) retired: bool,
    /// Tickets that have been handed out and not come back.
    pub(super) tickets: usize,
    /// How many threads that work for the pass are parked in a wait of their own, in a body for
    /// instance: nobody knows for how long.
    pub(super) away: usize,
    /// How many drivers are at the queue, or at something that stays with them.
    pub(super) attentive: usize,
    /// Kernels that are being divided, and perhaps some that have been.
    pub(super) crews: Vec<Arc<Crew>>,
    pub(super) drivers: Drivers,
    /// Dynamic nodes whose futures were dropped when the last driver left.
    pub(super) interrupted: Vec<u32>,
    /// The position that others are counted from: the first one that the pass met.
    origin: Option<Position>,
    /// How often the last driver has left.
    pub(super) rests: u32,
    /// What was discarded under the lock, to be dropped when it is released: user code may run
    /// then.
    pub(super) discarded: Vec<(Value, &'static Location<'static>)>,
    /// How often the graph was entered from a new root.
    pub(super) roots_met: usize,
    /// Whether operands have smaller numbers than their consumers. Dynamic nodes end that.
    pub(super) in_order: bool,
    /// The stack of the traversal before, for reuse.
    pub(super) spare_stack: Vec<discover::Frame>,
    /// Whether a traversal was suspended: see [`suspend`](Books::suspend).
    pub(super) interleaved: bool,
    /// Lists of those who are to be told that what they wait for has ended.
    pub(super) to_tell: Vec<u32>,
    /// Operations whose values are for a buffer, once a step commits.
    pub(super) updates: Vec<u32>,
    /// The panic of a destructor, which nobody else would hear of.
    pub(super) fault: Option<Error>,
    /// What the reverse pass works with.
    arrived: Vec<Vec<Arrived>>,
    seen: Visits,
    pub(super) sweep_at: usize,
    /// Of which entries it is known to which segment they belong, in a pass that keeps values.
    pub(super) closed: Vec<bool>,
    /// Whether a mark was met.
    pub(super) has_marks: bool,
    /// Whether a value was forgotten that a backward may need.
    pub(super) forgot: bool,
    /// Whether the values of new entries are forgotten, too: nobody is going to look back at them.
    pub(super) forgets: bool,
}

/// Fewer entries than this are not worth a sweep.
pub(super) const SWEEP_AT_LEAST: usize = if cfg!(shuttle) { 4 } else { 64 };
/// Each of its own size.
const CHAINS_KEPT: usize = 1 << 10;

/// Among so many weights it is faster to look for one than to sort them out.
const FEW_WEIGHTS: usize = 16;

impl Books {
    pub(super) fn new() -> Self {
        Books {
            keep: Keep::Nothing,
            seed: None,
            snapshot: None,
            of_around: None,
            count: Count::default(),
            seat: Seat::default(),
            log: None,
            entries: Vec::new(),
            vacant: Vec::new(),
            links: Vec::new(),
            vacant_links: Vec::new(),
            roots: Vec::new(),
            side: FxHashMap::default(),
            weights: Vec::new(),
            weights_by_address: FxHashMap::default(),
            leaf: None,
            leaves_differ: false,
            waiting: Vec::new(),
            unused_waiting: NONE,
            chains: Chains::default(),
            refilled: 0,
            others: 0,
            constants: 0,
            woken: Vec::new(),
            wakers: FxHashMap::default(),
            tasks: FxHashMap::default(),
            backwards: FxHashMap::default(),
            queue: Queue::default(),
            running: 0,
            retired: false,
            tickets: 0,
            away: 0,
            attentive: 0,
            crews: Vec::new(),
            drivers: Drivers::default(),
            interrupted: Vec::new(),
            origin: None,
            rests: 0,
            discarded: Vec::new(),
            roots_met: 0,
            in_order: true,
            spare_stack: Vec::new(),
            interleaved: false,
            to_tell: Vec::new(),
            updates: Vec::new(),
            fault: None,
            arrived: Vec::new(),
            seen: Visits::default(),
            sweep_at: SWEEP_AT_LEAST,
            closed: Vec::new(),
            has_marks: false,
            forgot: false,
            forgets: false,
        }
    }

    /// Opens the books for a pass.
    pub(super) fn open(&mut self, keep: Keep, settings: &Settings) {
        self.keep = keep;
        self.seed = settings.seed;
        self.snapshot.clone_from(&settings.snapshot);
        self.seat.begin();
    }

    /// Whether the next pass has a seat already.
    pub(super) fn has_seat(&self) -> bool {
        self.seat.place().is_some()
    }

    /// The next pass looks for a seat of its own.
    pub(super) fn give_seat_back(&mut self) {
        self.seat = Seat::default();
    }

    /// Empties the books when their pass is over. The tables keep their room for the next one: to
    /// grow them anew would cost more than a small pass does. Values and nodes go here; their
    /// destructors may be the user's, and may use passes of their own.
    pub(super) fn close(&mut self) {
        self.seat.end();
        self.snapshot = None;
        self.of_around = None;
        self.count = Count::default();
        tables::clear(&mut self.entries);
        tables::clear(&mut self.weights);
        (self.leaf, self.leaves_differ) = (None, false);
        // what a pass inside this one wants done may be here without any
        if self.links.is_empty() && self.queue.len() == 0 && self.crews.is_empty() {
            debug_assert!(self.has_no_schedule(), "whatever waits, or is waited for, has links");
        } else {
            self.close_schedule();
        }
        if self.side.capacity() + self.weights_by_address.capacity() > 0 {
            self.empty_maps();
        }
        tables::clear(&mut self.spare_stack);
        self.interleaved = false;
        self.drivers.clear();
        (self.running, self.retired) = (0, false);
        (self.tickets, self.away, self.attentive) = (0, 0, 0);
        (self.refilled, self.others, self.constants) = (0, 0, 0);
        (self.origin, self.rests, self.roots_met, self.in_order) = (None, 0, 0, true);
        self.sweep_at = SWEEP_AT_LEAST;
        if self.arrived.iter().any(|table| table.capacity() > tables::SMALL) {
            self.trim_arrived();
        }
        if self.seen.room() > tables::SMALL {
            tables::let_go(&mut self.seen);
        }
        tables::empty(&mut self.closed);
        (self.has_marks, self.forgot, self.forgets) = (false, false, false);
    }

    #[cold]
    fn empty_maps(&mut self) {
        tables::empty(&mut self.side);
        tables::empty(&mut self.weights_by_address);
    }

    #[cold]
    fn trim_arrived(&mut self) {
        self.arrived.iter_mut().filter(|table| table.capacity() > tables::SMALL).for_each(tables::clear);
        self.arrived.retain(|table| table.capacity() > 0);
    }

    /// What a pass leaves that was more than a walk through scalar arithmetic: somebody has waited
    /// there, or was waited for, or an operation had an effect, whose root has links.
    fn close_schedule(&mut self) {
        tables::empty(&mut self.roots);
        tables::clear(&mut self.links);
        tables::empty(&mut self.vacant);
        tables::empty(&mut self.vacant_links);
        tables::clear(&mut self.waiting);
        self.unused_waiting = NONE;
        if self.chains.len() > CHAINS_KEPT {
            self.chains = Chains::default();
        }
        self.chains.clear();
        if !self.in_order {
            // only decisions fill these
            tables::empty(&mut self.tasks);
            tables::empty(&mut self.backwards);
            tables::empty(&mut self.interrupted);
        }
        tables::empty(&mut self.wakers);
        self.queue.clear();
        tables::empty(&mut self.to_tell);
        tables::empty(&mut self.updates);
        // who divides a kernel does not wait for the books to take his out
        tables::empty(&mut self.crews);
        tables::empty(&mut self.woken);
        tables::empty(&mut self.discarded);
    }

    /// Whether there is nothing to be done by [`close_schedule`](Self::close_schedule).
    fn has_no_schedule(&self) -> bool {
        let tables = [
            self.roots.len(),
            self.vacant.len(),
            self.vacant_links.len(),
            self.waiting.len(),
            self.tasks.len(),
            self.backwards.len(),
            self.interrupted.len(),
            self.wakers.len(),
            self.to_tell.len(),
            self.updates.len(),
            self.woken.len(),
            self.discarded.len(),
        ];
        tables.iter().all(|&rows| rows == 0) && self.unused_waiting == NONE && self.chains.are_unused()
    }

    pub(super) fn counters(&self) -> Counters {
        let all = self.entries.len() + self.refilled;
        let so_far = self.count.so_far;
        let evaluations = all - self.others + so_far.evaluations;
        Counters { nodes: all - self.constants, evaluations, ..so_far }
    }

    /// An operation was evaluated that has no entry.
    pub(crate) fn note_evaluation(&mut self) {
        self.refilled += 1;
    }

    /// How many operations were evaluated that are no scalar arithmetic.
    pub(super) fn evaluated(&self) -> usize {
        self.count.so_far.evaluations
    }

    /// Whether there are wakers to be called, or values to be dropped, once the lock is released.
    pub(super) fn has_deferred(&self) -> bool {
        !(self.woken.is_empty() && self.discarded.is_empty())
    }

    /// How many weights were met.
    pub(crate) fn weights_met(&self) -> usize {
        self.weights.len()
    }

    pub(super) fn live_entries(&self) -> usize {
        self.entries.len() - self.vacant.len()
    }

    /// Whether the numbers of the entries are those of a depth-first walk from the only root,
    /// operands before their consumers.
    pub(crate) fn in_order(&self) -> bool {
        self.in_order && self.roots_met == 1
    }

    #[inline(always)]
    pub(crate) fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    pub(crate) fn status(&self, index: u32) -> Status<'_> {
        let entry = self.entry(index);
        match entry.state {
            State::Pending => Status::Pending,
            State::Freed => Status::Freed,
            State::F32 | State::F64 => {
                Status::Done(Seen::Number(entry.number().expect("the state says that it is a number").into()))
            }
            State::Done | State::Failed => match &self.links[entry.links as usize].outcome {
                Some(Ok(value)) => Status::Done(Seen::There(value)),
                Some(Err(error)) => Status::Failed(error),
                None => unreachable!("what is done or has failed has an outcome"),
            },
        }
    }

    #[inline]
    pub(crate) fn node(&self, index: u32) -> Held {
        self.entries[index as usize].held()
    }

    /// For a dynamic node: the entry of the layer that it turned out to be, or none.
    pub(crate) fn source(&self, index: u32) -> u32 {
        self.entries[index as usize].operands[0]
    }

    #[inline]
    pub(crate) fn trained(&self, index: u32) -> bool {
        self.entries[index as usize].trained
    }

    pub(crate) fn backward(&self, index: u32) -> Option<Arc<dyn AnyBackward>> {
        self.backwards.get(&index).cloned()
    }

    #[inline]
    pub(crate) fn value(&self, index: u32) -> Seen<'_> {
        let entry = self.entry(index);
        if entry.state == State::Done
            && let Some(Ok(value)) = &self.links[entry.links as usize].outcome
        {
            return Seen::There(value);
        }
        self.number_as_value(index)
    }

    /// Not inlined: tensors are looked at more often.
    #[inline(never)]
    fn number_as_value(&self, index: u32) -> Seen<'_> {
        match self.status(index) {
            Status::Done(value) => value,
            _ => unreachable!("an entry is asked for its value when it is done, and not after it was freed"),
        }
    }

    /// How an entry has ended, if it has.
    pub(super) fn outcome(&self, index: u32) -> Option<Result<Value>> {
        match self.status(index) {
            Status::Pending => None,
            Status::Done(value) => Some(Ok(value.to_value())),
            Status::Failed(error) => Some(Err(error.clone())),
            Status::Freed => None,
        }
    }

    pub(super) fn ended(&self, index: u32) -> bool {
        self.entry(index).state != State::Pending
    }

    /// A table for what arrives at the nodes on the way back, where nothing has arrived yet.
    pub(crate) fn take_arrived(&mut self) -> Vec<Arrived> {
        let mut arrived = self.arrived.pop().unwrap_or_else(|| tables::with_room(self.entries.len()));
        if arrived.len() < self.entries.len() {
            arrived.resize_with(self.entries.len(), Arrived::default);
        }
        arrived
    }

    /// Takes it back, when everything has been taken out of it.
    pub(crate) fn keep_arrived(&mut self, arrived: Vec<Arrived>) {
        self.arrived.push(arrived);
    }

    /// Nodes that a walk has seen: none yet.
    pub(crate) fn take_seen(&mut self) -> Visits {
        let mut seen = std::mem::take(&mut self.seen);
        seen.begin(self.entries.len());
        seen
    }

    pub(crate) fn keep_seen(&mut self, seen: Visits) {
        self.seen = seen;
    }

    /// From now on positions outside of bodies are counted from here, unless there was one already.
    pub(super) fn note_position(&mut self, position: Position) {
        if self.origin.is_none() && position.is_outside() {
            self.origin = Some(position);
        }
    }

    /// What positions outside of bodies are counted from, if that is settled.
    pub(super) fn origin(&self) -> Option<Position> {
        self.origin
    }

    /// A number that depends on the seed and on the position only, not on time.
    pub(super) fn number_at(&self, position: Position) -> u64 {
        position.relative_to(self.origin).mix(self.seed.unwrap_or(0))
    }

    /// The value of a variable, as the pass sees it.
    #[inline]
    pub(super) fn read(&self, variable: &Variable) -> Value {
        match &self.snapshot {
            None => variable.read(),
            Some(snapshot) => snapshot.read(variable),
        }
    }

    /// The seed at a position, if there is one to draw from.
    pub(super) fn seed(&self, position: Position, node: &Node) -> Result<Value> {
        if self.seed.is_none() {
            let why = "this pass has no seed to draw from: write `.seed(…)` after `train` or `predict`, another one for each step";
            return Err(Error::invalid(why).at("seed", node.site()));
        }
        Ok(Seed::new(self.number_at(position)).into_value())
    }

    /// The entry of a weight that was met before, maybe under another leaf.
    pub(super) fn find_weight(&mut self, address: usize, several_leaves: bool) -> Option<u32> {
        if !several_leaves {
            return None;
        }
        if self.weights.len() <= FEW_WEIGHTS {
            return self.weights.iter().find(|(known, _)| *known == address).map(|&(_, index)| index);
        }
        let known = self.weights_by_address.len();
        self.weights_by_address.extend(self.weights[known..].iter().copied());
        self.weights_by_address.get(&address).copied()
    }

    /// The entry of a node, or, if it is a leaf of a weight, of the weight.
    pub(crate) fn find_any_leaf(&mut self, node: &Node) -> Option<u32> {
        let of_weight = |books: &mut Books| {
            let variable = node.variable()?;
            books.find_weight(variable.address(), variable.has_several_leaves())
        };
        self.find(node).or_else(|| of_weight(self))
    }

    #[inline]
    pub(super) fn links(&mut self, index: u32) -> &mut Links {
        if self.entries[index as usize].links == NONE {
            self.add_links(index);
        }
        &mut self.links[self.entries[index as usize].links as usize]
    }

    /// The links of an entry that has some, as all that were scheduled do.
    #[inline(always)]
    pub(super) fn linked(&mut self, index: u32) -> &mut Links {
        &mut self.links[self.entries[index as usize].links as usize]
    }

    /// Whether this entry could not be evaluated when it was entered.
    #[inline]
    pub(super) fn is_scheduled(&self, index: u32) -> bool {
        let links = self.entry(index).links;
        links != NONE && self.links[links as usize].scheduled
    }

    pub(super) fn add_links(&mut self, index: u32) {
        let place = match self.vacant_links.pop() {
            Some(vacant) => {
                self.links[vacant as usize] = Links::NEW;
                vacant
            }
            None => {
                tables::push(&mut self.links, Links::NEW);
                (self.links.len() - 1) as u32
            }
        };
        self.links[place as usize].forgets = self.forgets;
        self.entries[index as usize].links = place;
    }
}
