//! Recording the nodes of a pass, if it has a record.
//!
//! A node is recorded when its slot is freed and when the pass rests, and a value before it is
//! released. Discovery therefore does nothing for the record. The record of a node that runs or is
//! referred to earlier is completed then.

use crate::error::branch::Branch;
use crate::exec::node_table::{NONE, Status};
use crate::exec::state::PassState;
use crate::exec::{Pass, user_code};
use crate::graph::node::{Node, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use crate::record::{Log, LogState, NodeRecord, TraceNodeId};
use std::sync::Arc;

impl PassState {
    fn traced(&self, index: u32) -> TraceNodeId {
        self.log.as_ref().map_or(TraceNodeId::NONE, |log| log.state().trace_id(index, &self.node(index)))
    }

    /// Records all nodes.
    pub(super) fn tell_all(&self) {
        let Some(log) = &self.log else { return };
        let mut state = log.state();
        for index in self.nodes.indices() {
            if self.entry(index).node.is_some() {
                self.tell(&mut state, index);
            }
        }
    }

    /// Called before this slot is freed.
    pub(super) fn tell_gone(&self, index: u32) {
        if let Some(log) = &self.log {
            let mut state = log.state();
            self.tell(&mut state, index);
            state.release(index);
        }
    }

    /// Called before the value of this slot is released.
    pub(super) fn tell_value(&self, index: u32) {
        if let Some(log) = &self.log {
            let mut state = log.state();
            let id = state.id(index, &self.node(index));
            self.describe(index, state.node(id));
        }
    }

    fn tell(&self, state: &mut LogState, index: u32) {
        let node = self.node(index);
        let id = state.id(index, &node);
        if state.is_complete(id) {
            return;
        }
        let below = (0..node.operands().len()).filter_map(|which| self.operand_if_entered(index, &node, which));
        let operands: Vec<u32> = below.map(|operand| state.id(operand, &self.node(operand))).collect();
        let source = if node.is_dynamic() { self.source(index) } else { NONE };
        let became = (source != NONE).then(|| state.id(source, &self.node(source)));
        let record = state.node(id);
        (record.operands, record.became) = (operands, became);
        self.describe(index, record);
        if self.is_completed(index) {
            state.complete(id);
        }
    }

    /// The slot of an operand, also of a node with operands that are still being inserted.
    fn operand_if_entered(&self, index: u32, node: &Node, which: usize) -> Option<u32> {
        let known = Some(self.entry(index).operand(which)).filter(|&operand| operand != NONE);
        known.or_else(|| self.find(&node.operands()[which]))
    }

    fn describe(&self, index: u32, record: &mut NodeRecord) {
        let node = self.node(index);
        match self.status(index) {
            Status::Ready(value) if record.value.is_empty() => {
                let is_another = node.is_dynamic() && self.source(index) != NONE;
                (record.value, record.bytes) = described(&node, value.as_value());
                if is_another {
                    record.bytes = 0;
                }
                if let NodeOp::Primitive(op) = &node.op {
                    (record.inner, record.results) = op.inner(value.as_value());
                }
            }
            Status::Failed(error) => record.failure = Some(error.to_string()),
            _ => {}
        }
    }
}

/// Type, shape and size of a value. Empty if user code panics.
fn described(node: &Node, value: &Value) -> (String, usize) {
    let kind = node.vtable;
    user_code::run(|| ((kind.describe)(value), (kind.bytes)(value))).unwrap_or_default()
}

impl Pass {
    /// The id of this node in the record.
    pub(super) fn traced(&self, index: u32) -> TraceNodeId {
        self.state().traced(index)
    }

    /// The same for a layer, if it is in the node table.
    pub(crate) fn told_layer(&self, layer: &NodeRef) -> TraceNodeId {
        let state = self.state();
        state.find(layer).map_or(TraceNodeId::NONE, |index| state.traced(index))
    }

    /// Records that the body which this thread polls reads the value of this node.
    pub(super) fn looks(&self, state: &PassState, index: u32) {
        if let Some(log) = self.log() {
            let mut record = log.state();
            let at = record.id(index, &state.node(index));
            record.record_read(self.works_at(), at);
        }
    }

    /// Records that the body which this thread polls took a branch.
    pub(crate) fn took(&self, branch: &'static Branch, arm: usize) {
        if let Some(log) = self.log() {
            log.record_branch(self.works_at(), branch, arm);
        }
    }

    /// Called when the pass rests or ends.
    pub(super) fn tell_rest(&self, state: &PassState) {
        if let Some(log) = self.log() {
            state.tell_all();
            log.pause();
        }
    }

    #[inline]
    fn log(&self) -> Option<&Arc<Log>> {
        self.watch.log.as_ref()
    }
}
