//! The books of a pass: an entry for each node, its value, who waits for it, and what is ready to run.
//!
//! Entries are made by a depth-first walk that never recurses. Nodes whose operands are there already and which cost next to
//! nothing (constants, weights, scalar arithmetic) are evaluated during that walk, so a graph of scalars never sees the queue.
//! The others wait until their last operand is done; then they are queued.
//!
//! A failed operand counts as done: its consumer fails when *all* its operands have ended, with the error of the leftmost one
//! that failed. So the error that is reported does not depend on time.

use super::claim::Seat;
use super::drivers::Drivers;
use super::tables::Tables;
use super::{Mode, Pass, work::Task};
use crate::error::{Error, Result};
use crate::node::{AnyLayer, Expression};
use crate::rules::{Binary, Unary};
use crate::tape::AnyBackward;
use crate::value::{Repr, Value};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

pub(crate) struct Books {
    pub(crate) mode: Mode,
    seat: Seat,
    entries: Vec<Entry>,
    /// Entries whose nodes are gone, for reuse.
    vacant: Vec<u32>,
    /// Nodes that another live pass has claimed, by address.
    side: HashMap<usize, u32>,
    /// Who waits for whom: a list for each entry, threaded through one table.
    waiting: Vec<Waiting>,
    unused_waiting: u32,
    /// Who is to be woken as soon as the lock is released.
    pub(super) woken: Vec<Waker>,
    wakers: HashMap<u32, Vec<Waker>>,
    pub(super) tasks: HashMap<u32, Task>,
    backwards: HashMap<u32, Arc<dyn AnyBackward>>,
    /// What is ready to run.
    queue: VecDeque<Job>,
    queued_nanoseconds: f64,
    /// Tickets that have been handed out and not come back.
    pub(super) tickets: usize,
    pub(super) drivers: Drivers,
    /// Dynamic nodes whose futures were dropped when the last driver left.
    interrupted: Vec<u32>,
    /// What was discarded under the lock, to be dropped when it is released: user code may run then.
    pub(super) discarded: Vec<Value>,
    /// How often the graph was entered from a new root.
    roots: usize,
    /// Whether operands have smaller numbers than their consumers. Dynamic nodes end that.
    in_order: bool,
    walk: Vec<(AnyLayer, usize)>,
    finished: Vec<(u32, Result<Value>)>,
    sweep_at: usize,
}

pub(super) struct Entry {
    node: AnyLayer,
    status: Status,
    /// Operands that are not done.
    pending: u32,
    /// The first of those who wait for this one.
    waiting: u32,
    /// Operand edges that lead here, and those among them whose consumer is not done. Only those of consumers that could not
    /// be evaluated at once are counted, which is enough: the others are scalars, whose values are never freed.
    consumers: u32,
    unfinished: u32,
    /// For a dynamic node: the entry of the layer that it turned out to be.
    source: u32,
    /// How many dynamic nodes turned out to be this one.
    followers: u32,
    /// Whether a gradient could flow through it to some weight.
    trained: bool,
}

pub(crate) enum Status {
    Pending,
    Done(Value),
    /// It was done; nobody needs the value any more.
    Freed,
    Failed(Error),
}

pub(super) struct Waiting {
    consumer: u32,
    next: u32,
}

/// Something to do, with a guess of how long it takes.
pub(super) struct Job {
    pub(super) what: Work,
    pub(super) nanoseconds: f64,
}

pub(super) enum Work {
    /// Evaluate the operation of this entry, whose operands have these values.
    Kernel(Kernel),
    /// Poll the future of this dynamic node.
    Task(u32),
    /// Work through the queue of a pass that was started inside this one.
    Help(Arc<Pass>),
}

pub(super) struct Kernel {
    pub(super) index: u32,
    pub(super) node: AnyLayer,
    pub(super) operands: Vec<Value>,
}

/// Kernels are taken from the queue in batches that keep a thread busy for so long: each time the lock is taken anew, another
/// thread may stand in the way.
const BATCH_NANOSECONDS: f64 = 8_000.0;

impl Drop for Books {
    fn drop(&mut self) {
        let tables = Tables {
            entries: std::mem::take(&mut self.entries),
            waiting: std::mem::take(&mut self.waiting),
            queue: std::mem::take(&mut self.queue),
            walk: std::mem::take(&mut self.walk),
            finished: std::mem::take(&mut self.finished),
        };
        tables.keep();
    }
}

/// Fewer entries than this are not worth a sweep.
const SWEEP_AT_LEAST: usize = 64;
/// What a task costs is not known; it is worth offering when there are a few.
const TASK_NANOSECONDS: f64 = 5_000.0;
/// A second: no guess needs to be longer.
const LONGEST_NANOSECONDS: f64 = 1e9;

impl Books {
    pub(crate) fn new(mode: Mode) -> Self {
        let tables = Tables::reuse();
        Books {
            mode,
            seat: Seat::take(),
            entries: tables.entries,
            vacant: Vec::new(),
            side: HashMap::new(),
            waiting: tables.waiting,
            unused_waiting: NONE,
            woken: Vec::new(),
            wakers: HashMap::new(),
            tasks: HashMap::new(),
            backwards: HashMap::new(),
            queue: tables.queue,
            queued_nanoseconds: 0.0,
            tickets: 0,
            drivers: Drivers::default(),
            interrupted: Vec::new(),
            discarded: Vec::new(),
            roots: 0,
            in_order: true,
            walk: tables.walk,
            finished: tables.finished,
            sweep_at: SWEEP_AT_LEAST,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the numbers of the entries are those of a depth-first walk from the only root, operands before their consumers.
    pub(crate) fn in_order(&self) -> bool {
        self.in_order && self.roots == 1
    }

    pub(crate) fn status(&self, index: u32) -> &Status {
        &self.entries[index as usize].status
    }

    pub(crate) fn node(&self, index: u32) -> &AnyLayer {
        &self.entries[index as usize].node
    }

    pub(crate) fn source(&self, index: u32) -> u32 {
        self.entries[index as usize].source
    }

    pub(crate) fn trained(&self, index: u32) -> bool {
        self.entries[index as usize].trained
    }

    pub(crate) fn backward(&self, index: u32) -> Option<Arc<dyn AnyBackward>> {
        self.backwards.get(&index).cloned()
    }

    pub(crate) fn value(&self, index: u32) -> &Value {
        match self.status(index) {
            Status::Done(value) => value,
            _ => unreachable!("an entry is asked for its value when it is done, and not after it was freed"),
        }
    }

    fn result(&self, index: u32) -> Result<Value> {
        match self.status(index) {
            Status::Done(value) => Ok(value.clone()),
            Status::Failed(error) => Err(error.clone()),
            _ => unreachable!("an entry is asked for its result when it has ended"),
        }
    }

    fn ended(&self, index: u32) -> bool {
        !matches!(self.status(index), Status::Pending)
    }

    /// The entry of a node, if this pass has met it.
    #[inline]
    pub(crate) fn find(&self, node: &AnyLayer) -> Option<u32> {
        let index = node.claim.entry(&self.seat);
        if index.is_none() && !self.side.is_empty() { self.side.get(&node.address()).copied() } else { index }
    }

    #[inline]
    pub(crate) fn entry_of(&self, node: &AnyLayer) -> u32 {
        self.find(node).expect("operands are entered before their consumer")
    }

    /// The entry of a node; it and everything it needs are entered if they are not yet.
    pub(crate) fn discover(&mut self, root: &AnyLayer) -> u32 {
        if let Some(index) = self.find(root) {
            return index;
        }
        self.roots += 1;
        if self.entries.len() - self.vacant.len() >= self.sweep_at {
            self.sweep();
        }
        let mut walk = std::mem::take(&mut self.walk);
        let base = walk.len();
        let mut last = NONE;
        walk.push((root.clone(), 0));
        while walk.len() > base {
            let (node, next) = walk.last_mut().expect("the walk is not empty");
            match node.operands().get(*next) {
                Some(operand) => {
                    *next += 1;
                    if self.find(operand).is_none() {
                        let operand = operand.clone();
                        walk.push((operand, 0));
                    }
                }
                None => {
                    let (node, _) = walk.pop().expect("the walk is not empty");
                    last = self.enter(node);
                }
            }
        }
        self.walk = walk;
        last
    }

    /// Makes the entry of a node whose operands are all entered.
    fn enter(&mut self, node: AnyLayer) -> u32 {
        let (status, trained) = match &node.expression {
            Expression::Constant(value) => (Status::Done(value.clone()), false),
            Expression::Weight(weight) => (Status::Done(weight.variable().read()), !weight.variable().frozen()),
            Expression::Unary(op, [x]) => {
                let x = &self.entries[self.entry_of(x) as usize];
                match &x.status {
                    Status::Done(value) => (Status::Done(unary(*op, value)), x.trained),
                    _ => (Status::Pending, false),
                }
            }
            Expression::Binary(op, [a, b]) => {
                let (a, b) = (&self.entries[self.entry_of(a) as usize], &self.entries[self.entry_of(b) as usize]);
                match (&a.status, &b.status) {
                    (Status::Done(x), Status::Done(y)) => (Status::Done(binary(*op, x, y)), a.trained || b.trained),
                    _ => (Status::Pending, false),
                }
            }
            _ => (Status::Pending, false),
        };
        let pending = matches!(status, Status::Pending);
        let entry = Entry {
            node,
            status,
            pending: 0,
            waiting: NONE,
            consumers: 0,
            unfinished: 0,
            source: NONE,
            followers: 0,
            trained,
        };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let node = &self.entries[index as usize].node;
        if !node.claim.claim(&self.seat, index) {
            self.side.insert(node.address(), index);
        }
        if pending {
            self.schedule(index);
        }
        index
    }

    /// Finds out when a new entry, which could not be evaluated at once, can be.
    fn schedule(&mut self, index: u32) {
        let node = self.entries[index as usize].node.clone();
        if let Expression::Dynamic(_) = &node.expression {
            self.in_order = false;
            self.queue_task(index);
            return;
        }
        for operand in node.operands() {
            let operand = self.entry_of(operand);
            let awaited = !self.ended(operand);
            let entry = &mut self.entries[operand as usize];
            entry.consumers += 1;
            entry.unfinished += 1;
            if awaited {
                self.wait_for(operand, index);
            }
        }
        if self.entries[index as usize].pending == 0 {
            self.ready(index);
            self.settle();
        }
    }

    /// All operands of this entry have ended: evaluate it now, or queue it.
    fn ready(&mut self, index: u32) {
        let node = self.entries[index as usize].node.clone();
        if let Expression::Dynamic(_) = &node.expression {
            let source = self.source(index);
            self.entries[index as usize].trained = self.trained(source);
            let result = self.result(source);
            self.finished.push((index, result));
            self.entries[source as usize].unfinished -= 1;
            self.free(source);
            return;
        }
        let mut trained = false;
        for operand in node.operands() {
            let operand = self.entry_of(operand);
            trained |= self.trained(operand);
            if let Status::Failed(error) = self.status(operand) {
                let error = error.clone();
                self.finished.push((index, Err(error)));
                return;
            }
        }
        self.entries[index as usize].trained = trained;
        match &node.expression {
            Expression::Unary(op, [x]) => {
                let value = unary(*op, self.value(self.entry_of(x)));
                self.finished.push((index, Ok(value)));
            }
            Expression::Binary(op, [a, b]) => {
                let value = binary(*op, self.value(self.entry_of(a)), self.value(self.entry_of(b)));
                self.finished.push((index, Ok(value)));
            }
            Expression::Primitive(op, operands) => {
                let operands: Vec<Value> = operands.iter().map(|x| self.value(self.entry_of(x)).clone()).collect();
                let cost = catch_unwind(AssertUnwindSafe(|| op.cost(&operands)));
                self.push(Work::Kernel(Kernel { index, node: node.clone(), operands }), cost.unwrap_or(0.0));
            }
            _ => unreachable!("the other kinds have no operands"),
        }
    }

    pub(super) fn queue_task(&mut self, index: u32) {
        self.push(Work::Task(index), TASK_NANOSECONDS);
    }

    pub(super) fn queue_help(&mut self, with: Arc<Pass>, nanoseconds: f64) {
        self.push(Work::Help(with), nanoseconds);
    }

    fn push(&mut self, what: Work, nanoseconds: f64) {
        // a guess that makes no sense must not spoil the sum
        let nanoseconds = if nanoseconds >= 0.0 { nanoseconds.min(LONGEST_NANOSECONDS) } else { TASK_NANOSECONDS };
        self.queued_nanoseconds += nanoseconds;
        self.queue.push_back(Job { what, nanoseconds });
    }

    pub(super) fn next_job(&mut self) -> Option<Job> {
        let job = self.queue.pop_front();
        self.queued_nanoseconds = match &job {
            Some(job) if !self.queue.is_empty() => self.queued_nanoseconds - job.nanoseconds,
            _ => 0.0,
        };
        job
    }

    /// More kernels to go with the one at hand, which costs this much; others get their share.
    pub(super) fn more_kernels(&mut self, nanoseconds: f64, batch: &mut Vec<Kernel>) {
        let mut budget = BATCH_NANOSECONDS - nanoseconds;
        let mut share = self.queue.len() / (1 + self.tickets);
        while share > 0
            && self.queue.front().is_some_and(|job| matches!(job.what, Work::Kernel(_)) && job.nanoseconds <= budget)
        {
            if let Some(Job { what: Work::Kernel(kernel), nanoseconds }) = self.next_job() {
                budget -= nanoseconds;
                share -= 1;
                batch.push(kernel);
            }
        }
    }

    pub(super) fn jobs(&self) -> usize {
        self.queue.len()
    }

    /// A guess of how long the queue would keep one thread busy.
    pub(super) fn queued_nanoseconds(&self) -> f64 {
        self.queued_nanoseconds
    }

    /// A dynamic node turned out to be this layer.
    pub(super) fn follow(&mut self, index: u32, layer: &AnyLayer) {
        let source = self.discover(layer);
        let awaited = !self.ended(source);
        let entry = &mut self.entries[source as usize];
        entry.unfinished += 1;
        entry.followers += 1;
        self.entries[index as usize].source = source;
        if awaited {
            self.wait_for(source, index);
        } else {
            self.ready(index);
            self.settle();
        }
    }

    /// A dynamic node ended with a value, and perhaps with a backward of its own.
    pub(super) fn finish_tape(&mut self, index: u32, value: Value, backward: Option<Arc<dyn AnyBackward>>) {
        if let Some(backward) = backward {
            self.entries[index as usize].trained = true;
            self.backwards.insert(index, backward);
        }
        self.finish(index, Ok(value));
    }

    fn wait_for(&mut self, operand: u32, consumer: u32) {
        let entry = &mut self.entries[operand as usize];
        let waiting = Waiting { consumer, next: entry.waiting };
        entry.waiting = match self.unused_waiting {
            NONE => {
                self.waiting.push(waiting);
                (self.waiting.len() - 1) as u32
            }
            reused => {
                let place = &mut self.waiting[reused as usize];
                self.unused_waiting = place.next;
                *place = waiting;
                reused
            }
        };
        self.entries[consumer as usize].pending += 1;
    }

    pub(crate) fn wake_when_done(&mut self, index: u32, waker: &Waker) {
        let wakers = self.wakers.entry(index).or_default();
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// Nobody drives the pass any more: takes all futures away, and has everybody woken who waits.
    pub(super) fn rest(&mut self) -> Vec<Task> {
        self.woken.extend(self.wakers.drain().flat_map(|(_, wakers)| wakers));
        let from = self.interrupted.len();
        self.interrupted.extend(self.tasks.keys());
        self.interrupted[from..].sort_unstable();
        self.tasks.drain().map(|(_, task)| task).collect()
    }

    /// The opposite: what was interrupted begins anew.
    pub(super) fn resume(&mut self) {
        for index in std::mem::take(&mut self.interrupted) {
            if !self.ended(index) {
                self.queue_task(index);
            }
        }
    }

    /// Writes down how an entry ended, and what follows from that.
    pub(super) fn finish(&mut self, index: u32, result: Result<Value>) {
        self.finished.push((index, result));
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((index, result)) = self.finished.pop() {
            let entry = &mut self.entries[index as usize];
            entry.status = match result {
                Ok(value) => Status::Done(value),
                Err(error) => Status::Failed(error),
            };
            let mut next = std::mem::replace(&mut entry.waiting, NONE);
            if self.mode == Mode::Predict && !entry.node.operands().is_empty() {
                let node = entry.node.clone();
                for operand in node.operands() {
                    let operand = self.entry_of(operand);
                    self.entries[operand as usize].unfinished -= 1;
                    self.free(operand);
                }
            }
            if !self.wakers.is_empty() {
                for waker in self.wakers.remove(&index).into_iter().flatten() {
                    self.woken.push(waker);
                }
            }
            while next != NONE {
                let slot = &mut self.waiting[next as usize];
                let consumer = slot.consumer;
                let after = std::mem::replace(&mut slot.next, self.unused_waiting);
                self.unused_waiting = next;
                next = after;
                let entry = &mut self.entries[consumer as usize];
                entry.pending -= 1;
                if entry.pending == 0 {
                    self.ready(consumer);
                }
            }
        }
    }

    /// Lets go of the value of an entry when nobody can ask for it any more: all consumers that were met are done, and all
    /// handles to the node are ours or theirs.
    fn free(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if self.mode == Mode::Predict
            && entry.unfinished == 0
            && matches!(entry.status, Status::Done(Value(Repr::Any(_))))
            && entry.node.handles() <= 1 + entry.consumers as usize
            && !matches!(entry.node.expression, Expression::Constant(_) | Expression::Weight(_))
        {
            self.discard_value(index);
        }
    }

    fn discard_value(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if let Status::Done(value @ Value(Repr::Any(_))) = std::mem::replace(&mut entry.status, Status::Freed) {
            self.discarded.push(value);
        }
    }

    /// Drops the entries whose nodes nobody can reach any more, so that a loop of a million bangs runs in constant memory.
    ///
    /// A node is out of reach when the only handle is ours and no dynamic node turned out to be it. Called each time the number
    /// of entries has doubled, so it costs a constant per entry; never during a walk, whose nodes have no consumers yet.
    fn sweep(&mut self) {
        let mut suspects: Vec<u32> = (0..self.entries.len() as u32).collect();
        while let Some(index) = suspects.pop() {
            let entry = &mut self.entries[index as usize];
            let reachable = entry.node.handles() > 1
                || entry.followers > 0
                || entry.waiting != NONE
                || matches!(entry.status, Status::Pending)
                || matches!(entry.node.expression, Expression::Dropped);
            if reachable || self.wakers.contains_key(&index) {
                continue;
            }
            self.discard_value(index);
            let entry = &mut self.entries[index as usize];
            let node = std::mem::replace(&mut entry.node, AnyLayer::vacant());
            let source = std::mem::replace(&mut entry.source, NONE);
            self.side.remove(&node.address());
            self.backwards.remove(&index);
            if source != NONE {
                self.entries[source as usize].followers -= 1;
                suspects.push(source);
            }
            for operand in node.operands() {
                if let Some(operand) = self.find(operand) {
                    let consumers = &mut self.entries[operand as usize].consumers;
                    *consumers = consumers.saturating_sub(1);
                    suspects.push(operand);
                }
            }
            self.vacant.push(index);
            self.in_order = false;
            // a destructor of the user's may run here; if it panics there is nobody to tell
            let _ = catch_unwind(AssertUnwindSafe(|| drop(node)));
        }
        self.sweep_at = (2 * (self.entries.len() - self.vacant.len())).max(SWEEP_AT_LEAST);
    }
}

fn unary(op: Unary, x: &Value) -> Value {
    match &x.0 {
        Repr::F32(x) => Value(Repr::F32(op.value(*x))),
        Repr::F64(x) => Value(Repr::F64(op.value(*x))),
        Repr::Any(_) => unreachable!("scalar arithmetic works on scalars"),
    }
}

fn binary(op: Binary, a: &Value, b: &Value) -> Value {
    match (&a.0, &b.0) {
        (Repr::F32(a), Repr::F32(b)) => Value(Repr::F32(op.value(*a, *b))),
        (Repr::F64(a), Repr::F64(b)) => Value(Repr::F64(op.value(*a, *b))),
        _ => unreachable!("scalar arithmetic works on scalars of one type"),
    }
}
