//! The state of a pass, behind the state lock. Each part documents its own invariants.
//!
//! A node that cannot be evaluated on insertion (see `discover.rs`) is pending until its last
//! operand is completed. Then it is queued (`readiness.rs`).

use crate::error::{Error, Result};
use crate::exec::discover::Discovery;
use crate::exec::drivers::DriverSet;
use crate::exec::node_index::NodeIndex;
use crate::exec::node_table::{NodeSlot, NodeTable, SlotState, Status, ValueRef};
use crate::exec::ready_queue::ReadyQueue;
use crate::exec::regions::Workers;
use crate::exec::remat::Retention;
use crate::exec::settings::{Mode, Settings};
use crate::exec::snapshot::Snapshot;
use crate::exec::stats::{Counters, Stats};
use crate::exec::tasks::TaskTable;
use crate::exec::{Keep, Pass, vec_pool};
use crate::graph::data::Data;
use crate::graph::node::{AnyBackward, Node};
use crate::graph::node_ref::NodePtr;
use crate::graph::seed::{ModeAndSeed, Position};
use crate::graph::value::Value;
use crate::graph::variable::Variable;
use crate::record::Log;
use std::any::TypeId;
use std::panic::Location;
use std::sync::{Arc, Weak};
use std::task::Waker;

#[derive(Default)]
pub(crate) struct PassState {
    pub(super) env: Environment,
    pub(super) index: NodeIndex,
    pub(super) nodes: NodeTable,
    pub(super) ready: ReadyQueue,
    pub(super) tasks: TaskTable,
    pub(super) drivers: DriverSet,
    pub(super) workers: Workers,
    pub(super) discovery: Discovery,
    pub(super) retention: Retention,
    pub(super) stats: Stats,
    pub(super) deferred: Deferred,
    /// The record, which must get nodes and values before they are released.
    pub(super) log: Option<Arc<Log>>,
}

/// The inputs of a pass besides the graph.
#[derive(Default)]
pub(super) struct Environment {
    keep: Keep,
    trains: bool,
    seed: Option<u64>,
    snapshot: Option<Snapshot>,
    /// The pass whose values of weights this pass reads, because it evaluates a derivative there.
    parent: Option<Weak<Pass>>,
    /// The origin that positions are counted from: the first position in the pass.
    origin: Option<Position>,
}

impl Environment {
    fn begin(&mut self, keep: Keep, mode: Mode, settings: &Settings) {
        self.keep = keep;
        self.trains = mode == Mode::Train;
        self.seed = settings.seed;
        self.snapshot.clone_from(&settings.snapshot);
    }

    fn reset(&mut self) {
        (self.snapshot, self.parent, self.origin) = (None, None, None);
    }

    pub(super) fn keep(&self) -> Keep {
        self.keep
    }

    pub(super) fn set_parent(&mut self, parent: Weak<Pass>) {
        self.parent = Some(parent);
    }

    pub(super) fn parent(&self) -> Option<Arc<Pass>> {
        self.parent.as_ref().and_then(Weak::upgrade)
    }

    /// Counts positions outside of bodies from here on, unless the origin is set already.
    pub(super) fn note_position(&mut self, position: Position) {
        if self.origin.is_none() && position.is_outside() {
            self.origin = Some(position);
        }
    }

    /// The origin of positions outside of bodies, if it is set.
    pub(super) fn origin(&self) -> Option<Position> {
        self.origin
    }

    /// A number that depends on the seed and the position only, not on timing.
    pub(super) fn number_at(&self, position: Position) -> u64 {
        position.relative_to(self.origin).mix(self.seed.unwrap_or(0))
    }

    /// The seed at a position, or an error if the pass has no seed; for a call, the mode and the
    /// seed.
    pub(super) fn seed(&self, position: Position, node: &Node) -> Result<Value> {
        let here = ModeAndSeed::new(self.trains, self.seed, position.relative_to(self.origin));
        if (node.vtable.id)() == TypeId::of::<ModeAndSeed>() {
            return Ok(here.into_value());
        }
        here.seed().map(Data::into_value).map_err(|error| error.at("seed", node.site()))
    }

    /// Whether the pass reads the current values of weights.
    #[inline(always)]
    pub(super) fn reads_weights(&self) -> bool {
        self.parent.is_none() && self.snapshot.is_none()
    }

    /// The value of a variable in this pass.
    #[inline]
    pub(super) fn read(&self, variable: &Variable) -> Value {
        match &self.snapshot {
            None => variable.read(),
            Some(snapshot) => snapshot.read(variable),
        }
    }
}

/// Work that is deferred until the lock is released, because it may run user code.
#[derive(Default)]
pub(super) struct Deferred {
    wakers: Vec<Waker>,
    /// Values to be dropped, with the source locations of their nodes.
    values: Vec<(Value, &'static Location<'static>)>,
    /// The first panic of a destructor. The owner that releases the pass reports it.
    fault: Option<Error>,
}

impl Deferred {
    fn reset(&mut self) {
        self.wakers.clear();
        self.values.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wakers.is_empty() && self.values.is_empty()
    }

    pub(super) fn wake(&mut self, waker: Waker) {
        self.wakers.push(waker);
    }

    pub(super) fn wake_all(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.wakers.extend(wakers);
    }

    pub(super) fn drop_value(&mut self, value: Value, place: &'static Location<'static>) {
        self.values.push((value, place));
    }

    /// The number of values to be dropped.
    pub(super) fn values(&self) -> usize {
        self.values.len()
    }

    /// Drops all values after the first `values` now. They must be plain data.
    pub(super) fn drop_values_after(&mut self, values: usize) {
        self.values.truncate(values);
    }

    pub(super) fn take(&mut self) -> (Vec<Waker>, Vec<(Value, &'static Location<'static>)>) {
        (std::mem::take(&mut self.wakers), std::mem::take(&mut self.values))
    }

    pub(super) fn set_fault(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
    }

    pub(super) fn take_fault(&mut self) -> Result<()> {
        self.fault.take().map_or(Ok(()), Err)
    }
}

impl PassState {
    /// Called when a pass begins.
    pub(super) fn begin(&mut self, keep: Keep, mode: Mode, settings: &Settings) {
        self.env.begin(keep, mode, settings);
        self.index.begin();
    }

    /// Called when the pass ends. The tables keep their memory for the next pass. Values and nodes
    /// are dropped here; their destructors may be user code that starts passes of its own.
    pub(super) fn reset(&mut self) {
        self.index.reset();
        self.env.reset();
        self.stats.reset();
        self.drivers.reset();
        self.workers.reset();
        self.discovery.reset();
        // All other parts refer to nodes with an ext, which a pass of scalar arithmetic does not
        // have. Only a nested pass may have asked for help.
        let is_large = self.nodes.len() > vec_pool::SMALL;
        let has_exts = self.nodes.reset();
        if has_exts || self.ready.len() > 0 {
            self.ready.reset();
        }
        if is_large {
            // As a thread keeps the pass. No table of these parts is larger than the node table.
            (self.ready, self.tasks, self.retention) = Default::default();
        }
        if has_exts {
            self.tasks.reset();
            self.retention.reset();
            self.deferred.reset();
        }
    }

    /// The last owner was dropped. Takes all nodes and values out; while a job is running, only
    /// schedules the values to be dropped. The caller must drop the result without the lock.
    pub(super) fn retire(&mut self) -> PassState {
        let mut retired = PassState::default();
        self.workers.retired = true;
        if self.workers.running > 0 {
            self.discard_all_values();
            return retired;
        }
        std::mem::swap(&mut self.index, &mut retired.index);
        std::mem::swap(&mut self.nodes, &mut retired.nodes);
        std::mem::swap(&mut self.ready, &mut retired.ready);
        std::mem::swap(&mut self.tasks, &mut retired.tasks);
        std::mem::swap(&mut self.retention, &mut retired.retention);
        retired
    }

    pub(super) fn counters(&self) -> Counters {
        self.stats.counters(self.nodes.len())
    }

    /// Counts an evaluation of an operation without a slot.
    pub(crate) fn note_evaluation(&mut self) {
        self.stats.without_slot();
    }

    /// The number of inserted weights.
    pub(crate) fn weights_met(&self) -> usize {
        self.index.weights()
    }

    pub(crate) fn keep(&self) -> Keep {
        self.env.keep()
    }

    #[inline(always)]
    pub(crate) fn entry(&self, index: u32) -> &NodeSlot {
        self.nodes.slot(index)
    }

    pub(crate) fn status(&self, index: u32) -> Status<'_> {
        self.nodes.status(index)
    }

    #[inline]
    pub(crate) fn value(&self, index: u32) -> ValueRef<'_> {
        self.nodes.value(index)
    }

    #[inline]
    pub(crate) fn node(&self, index: u32) -> NodePtr {
        self.nodes.slot(index).held()
    }

    /// The slot of the layer that a dynamic node has resolved to, or `NONE`.
    pub(crate) fn source(&self, index: u32) -> u32 {
        self.nodes.slot(index).operands[0]
    }

    #[inline]
    pub(crate) fn trained(&self, index: u32) -> bool {
        self.nodes.slot(index).trained
    }

    pub(crate) fn backward(&self, index: u32) -> Option<AnyBackward> {
        self.tasks.backward(index).cloned()
    }

    /// The result of a node, if it is completed and its value is available.
    pub(super) fn outcome(&self, index: u32) -> Option<Result<Value>> {
        match self.status(index) {
            Status::Pending | Status::Released => None,
            Status::Ready(value) => Some(Ok(value.to_value())),
            Status::Failed(error) => Some(Err(error.clone())),
        }
    }

    pub(super) fn is_completed(&self, index: u32) -> bool {
        self.nodes.slot(index).state != SlotState::Pending
    }

    /// The number of slots, including free ones.
    pub(crate) fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// The slot of a node; for a replica of a weight, the slot of the weight.
    pub(crate) fn find_any_replica(&mut self, node: &Node) -> Option<u32> {
        let of_weight = |state: &mut PassState| {
            let variable = node.variable()?;
            state.index.find_weight(variable.address(), variable.has_several_leaves())
        };
        self.find(node).or_else(|| of_weight(self))
    }
}
