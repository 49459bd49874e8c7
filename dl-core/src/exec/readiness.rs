//! Readiness. A node waits for its operands. When the last operand is completed, the node is
//! evaluated or queued. When the node is completed, it notifies its dependents.
//!
//! A failed operand counts as completed. A node fails only after *all* its operands are completed,
//! with the error of the leftmost failed operand, so the reported error does not depend on timing.

use crate::error::{Error, Result};
use crate::exec::dispatch::prefers_driver;
use crate::exec::node_table::{NONE, SlotState, Status, ValueRef};
use crate::exec::ready_queue::Work;
use crate::exec::state::PassState;
use crate::exec::{Keep, user_code};
use crate::graph::node::{Node, NodeOp};
use crate::graph::op::AnyPrimitive;
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use smallvec::SmallVec;

/// The slots of the operands of a node.
pub(crate) type Places = SmallVec<[u32; MANY]>;
/// More operands than this take a table on the heap.
const MANY: usize = 16;

impl PassState {
    /// Registers a new node, which could not be evaluated on insertion, as a dependent of its
    /// operands.
    pub(super) fn schedule(&mut self, index: u32) {
        let node = self.node(index);
        self.nodes.add_ext(index);
        self.nodes.ext_mut(index).scheduled = true;
        match &node.op {
            NodeOp::Dynamic(recipe) => {
                self.discovery.lose_order();
                self.env.note_position(recipe.position());
                self.queue_task(index);
            }
            NodeOp::Seed(position) => {
                self.env.note_position(*position);
                let seed = self.env.seed(*position, &node);
                self.complete(index, seed);
            }
            _ if node.is_arithmetic() => {
                for operand in self.entry(index).operands.into_iter().filter(|&operand| operand != NONE) {
                    self.rematerialize(operand);
                    if !self.is_completed(operand) {
                        self.nodes.add_dependent(operand, index);
                    }
                }
                if self.nodes.ext_mut(index).in_degree == 0 {
                    self.on_inputs_ready(index); // an operand has failed
                    self.notify_dependents();
                }
            }
            _ => {
                let operands = node.operands().len();
                // Rematerializing one operand may complete another, which must have no dependent
                // yet.
                for which in 0..operands {
                    let operand = self.operand(index, which);
                    self.rematerialize(operand);
                    self.add_use(operand);
                }
                for which in 0..operands {
                    let operand = self.operand(index, which);
                    if !self.is_completed(operand) {
                        self.nodes.add_dependent(operand, index);
                    }
                }
                if self.nodes.ext_mut(index).in_degree == 0 {
                    self.on_inputs_ready(index);
                    self.notify_dependents();
                }
            }
        }
    }

    /// Adds a use of a slot by a consumer that is not scalar arithmetic.
    #[inline]
    pub(super) fn add_use(&mut self, index: u32) {
        if self.nodes.is_scheduled(index) {
            let ext = self.nodes.ext_mut(index);
            ext.uses += 1;
            ext.pending_uses += 1;
        }
    }

    /// This node is completed: each operand has one pending use less.
    #[inline]
    pub(super) fn release_uses(&mut self, index: u32, node: &Node) {
        if node.is_arithmetic() {
            return;
        }
        for which in 0..node.operands().len() {
            let operand = self.operand(index, which);
            if self.nodes.is_scheduled(operand) {
                self.nodes.ext_mut(operand).pending_uses -= 1;
                self.release_if_unused(operand);
            }
        }
    }

    /// The estimated cost of the kernel of this node. Its operands must be ready.
    fn cost(&self, index: u32, op: &dyn AnyPrimitive) -> Result<f64> {
        let cost = |operands: &[&Value]| user_code::run(|| op.cost(operands));
        self.with_operands(index, op.operands().len(), cost)
    }

    /// Calls `f` with the values of the operands of this node, which must be ready.
    pub(crate) fn with_operands<R>(&self, index: u32, count: usize, look: impl FnOnce(&[&Value]) -> R) -> R {
        let value = |which| self.value(self.operand(index, which));
        // Without a table, which costs as much as a small kernel: most operations have few
        // operands.
        match count {
            1 => look(&[value(0).as_value()]),
            2 => look(&[value(0).as_value(), value(1).as_value()]),
            3 => look(&[value(0).as_value(), value(1).as_value(), value(2).as_value()]),
            n => self.with_values(&self.places(index, n), look),
        }
    }

    /// The slots of the operands of a node. To find one of more than three takes a look at its node.
    pub(crate) fn places(&self, index: u32, count: usize) -> Places {
        (0..count).map(|which| self.operand(index, which)).collect()
    }

    /// Calls `f` with the values of these slots, which must be ready.
    pub(crate) fn with_values<R>(&self, places: &[u32], look: impl FnOnce(&[&Value]) -> R) -> R {
        let mut values: SmallVec<[ValueRef<'_>; MANY]> = SmallVec::new();
        places.iter().for_each(|&place| values.push(self.value(place)));
        let mut borrowed: SmallVec<[&Value; MANY]> = SmallVec::new();
        values.iter().for_each(|value| borrowed.push(value.as_value()));
        look(&borrowed)
    }

    /// All operands of this node are completed: evaluates the node or queues its job.
    pub(super) fn on_inputs_ready(&mut self, index: u32) {
        let node = self.node(index);
        if let NodeOp::Dynamic(_) = &node.op {
            let source = self.source(index);
            self.nodes.slot_mut(index).trained = self.trained(source);
            self.nodes.ext_mut(source).pending_uses -= 1;
            if let Some(number) = self.entry(source).number() {
                return self.complete_with_number(index, number);
            }
            let result = self.outcome(source).expect("what it has resolved to is completed");
            self.complete_quietly(index, result);
            if self.entry(source).state == SlotState::Ready {
                self.release_if_unused(source);
            }
            return;
        }
        if let Some((number, trained, arithmetic)) = self.arithmetic_of(index) {
            self.skip_marks(index);
            let slot = self.nodes.slot_mut(index);
            (slot.trained, slot.arithmetic) = (trained, arithmetic);
            return self.complete_with_number(index, number);
        }
        let operands = node.operands().len();
        let mut trained = false;
        let mut failed: Option<Error> = None;
        for which in 0..operands {
            let operand = self.operand(index, which);
            trained |= self.trained(operand);
            if let Status::Failed(error) = self.status(operand) {
                failed = Some(error.added_to(failed));
            }
        }
        if let Some(error) = failed {
            return self.complete_quietly(index, Err(error));
        }
        self.nodes.slot_mut(index).trained = trained;
        match &node.op {
            NodeOp::Primitive(op) => match self.cost(index, &**op) {
                Ok(nanoseconds) if self.env.keep() == Keep::Values && prefers_driver(&**op, nanoseconds) => {
                    self.ready.push_local(index, nanoseconds);
                }
                Ok(nanoseconds) => self.ready.push(Work::Kernel(index), nanoseconds),
                Err(error) => self.complete_quietly(index, Err(error.at(op.name_or_panic(), node.site()))),
            },
            _ => unreachable!("the other kinds have no operands, or are evaluated"),
        }
    }

    /// Completes a node with this result, and notifies its dependents.
    pub(super) fn complete(&mut self, index: u32, result: Result<Value>) {
        self.complete_quietly(index, result);
        self.notify_dependents();
    }

    /// [`complete`](PassState::complete), but the dependents are notified by the next
    /// [`notify_dependents`](PassState::notify_dependents).
    pub(super) fn complete_quietly(&mut self, index: u32, result: Result<Value>) {
        let node = self.node(index);
        self.stats.evaluated();
        self.store(index, &node, result);
        self.completed(index);
        self.release_uses(index, &node);
    }

    /// [`complete`](PassState::complete) for scalar arithmetic, or for a dynamic node with a number
    /// as its value.
    #[inline]
    fn complete_with_number(&mut self, index: u32, number: Scalar) {
        self.stats.evaluated();
        self.nodes.slot_mut(index).set_number(number);
        self.completed(index);
    }

    /// The result of this node is stored: schedules its wakers and dependents.
    #[inline]
    fn completed(&mut self, index: u32) {
        if std::mem::take(&mut self.nodes.ext_mut(index).awaited) {
            let wakers = self.tasks.take_wakers(index);
            self.deferred.wake_all(wakers);
        }
        self.nodes.notify_later(index);
    }

    /// Notifies the dependents of all completed nodes. A dependent whose last input is completed is
    /// evaluated or queued.
    pub(super) fn notify_dependents(&mut self) {
        while let Some(index) = self.nodes.next_with_inputs() {
            self.on_inputs_ready(index);
        }
    }
}
