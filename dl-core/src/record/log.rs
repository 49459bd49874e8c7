//! The log of one pass: the part of its record that is complete so far.
//!
//! A pass reuses the slot of a released node, so nodes have another index in the record. It is
//! assigned when a node is first mentioned.
//!
//! Lock order: the lock of the log may be acquired while the state lock of the pass is held, never
//! the other way round.

use crate::error::branch::Branch;
use crate::graph::node::{Node, NodeOp};
use crate::graph::postorder::postorder;
use crate::record::recorder::{Threads, lock};
use crate::record::{Decision, NodeKind, NodeRecord, PassRecord, Span, SpanWork};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) struct Log {
    since: Instant,
    threads: Arc<Threads>,
    state: Mutex<LogState>,
}

/// Identifies a node of the record, for work in progress. It is invalid once the record was taken.
#[derive(Clone, Copy)]
pub(crate) struct TraceNodeId {
    /// The number of times the record had been taken before.
    round: u32,
    /// The index of the node, or the value for no node.
    id: u32,
}

const NO_NODE: u32 = u32::MAX;

impl TraceNodeId {
    pub(crate) const NONE: TraceNodeId = TraceNodeId { round: 0, id: NO_NODE };
}

#[derive(Default)]
pub(crate) struct LogState {
    /// The number of times the record has been taken.
    round: u32,
    /// Whether a driver of the pass is active.
    running: bool,
    /// Whether the log has been removed from the list of the recorder, which happens when the
    /// record of a finished pass is taken.
    unlisted: bool,
    record: PassRecord,
    /// For each slot of the pass, the index of its node in the record, if it has one.
    ids: Vec<u32>,
    /// For each node, whether its record is final.
    complete: Vec<bool>,
    /// The elements of all `looked_at` lists: pairs of a body and a node.
    reads: HashSet<(u32, u32)>,
}

impl Log {
    pub(super) fn new(since: Instant, threads: Arc<Threads>) -> Self {
        let record = PassRecord { began: since.elapsed(), ..PassRecord::default() };
        let state = LogState { running: true, record, ..LogState::default() };
        Log { since, threads, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, LogState> {
        lock(&self.state)
    }

    /// Records a span of the current thread, from `began` until now.
    pub(crate) fn record_span(&self, work: SpanWork, at: TraceNodeId, began: Instant) {
        let (began, ended) = (began.saturating_duration_since(self.since), self.since.elapsed());
        let thread = self.threads.number();
        let mut state = self.state();
        if at.id != NO_NODE && at.round != state.round {
            return; // the record that it belongs to was taken
        }
        let node = state.current_index(at);
        state.record.spans.push(Span { work, node, thread, began, ended });
    }

    /// Records that the body of this node took an arm of a branch.
    pub(crate) fn record_branch(&self, at: TraceNodeId, branch: &'static Branch, taken: usize) {
        let mut state = self.state();
        let node = state.current_index(at);
        let looked_at = node.map_or(0, |node| state.record.nodes[node as usize].looked_at.len() as u32);
        state.record.decisions.push(Decision { node, branch, taken, looked_at });
    }

    /// The last driver has left the pass.
    pub(crate) fn pause(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.running) {
            state.record.ended = self.since.elapsed();
        }
    }

    /// A driver has arrived at a pass without drivers. Returns whether the record was taken since
    /// the last driver left: the log must then be added to the list of the recorder again.
    pub(super) fn resume(&self) -> bool {
        let mut state = self.state();
        state.running = true;
        let taken = std::mem::take(&mut state.unlisted);
        if taken {
            state.record.began = self.since.elapsed();
        }
        taken
    }

    /// Whether the record can be taken: the pass has no driver. Then the log counts as removed from
    /// the list of the recorder.
    pub(super) fn unlist_if_idle(&self) -> bool {
        let mut state = self.state();
        state.unlisted = !state.running;
        state.unlisted
    }

    /// Takes the record; none if it is empty.
    pub(super) fn take(&self) -> Option<PassRecord> {
        let mut state = self.state();
        let round = state.round + 1;
        // `resume` may have run since `unlist_if_idle`: keep its flags
        let fresh = LogState { round, running: state.running, unlisted: state.unlisted, ..LogState::default() };
        let LogState { mut record, .. } = std::mem::replace(&mut *state, fresh);
        drop(state);
        let is_empty = record.nodes.is_empty() && record.spans.is_empty() && record.decisions.is_empty();
        // spans of threads that were still working when the last driver left
        record.ended = record.spans.iter().map(|span| span.ended).fold(record.ended, Duration::max);
        // a backward pass over a tape begins before a driver arrives
        record.began = record.spans.iter().map(|span| span.began).fold(record.began, Duration::min);
        renumber_topologically(&mut record);
        (!is_empty).then_some(record)
    }
}

impl LogState {
    /// The index of the node in this slot of the pass.
    pub(crate) fn id(&mut self, entry: u32, node: &Node) -> u32 {
        let entry = entry as usize;
        if self.ids.len() <= entry {
            self.ids.resize(entry + 1, NO_NODE);
        }
        if self.ids[entry] == NO_NODE {
            self.ids[entry] = self.record.nodes.len() as u32;
            self.record.nodes.push(node_record(node));
            self.complete.push(false);
        }
        self.ids[entry]
    }

    pub(crate) fn trace_id(&mut self, entry: u32, node: &Node) -> TraceNodeId {
        TraceNodeId { round: self.round, id: self.id(entry, node) }
    }

    pub(crate) fn node(&mut self, id: u32) -> &mut NodeRecord {
        &mut self.record.nodes[id as usize]
    }

    pub(crate) fn is_complete(&self, id: u32) -> bool {
        self.complete[id as usize]
    }

    pub(crate) fn complete(&mut self, id: u32) {
        self.complete[id as usize] = true;
    }

    /// The node in this slot of the pass is released.
    pub(crate) fn release(&mut self, entry: u32) {
        if let Some(id) = self.ids.get_mut(entry as usize) {
            *id = NO_NODE;
        }
    }

    /// Records that the body of a node has read another node.
    pub(crate) fn record_read(&mut self, body: TraceNodeId, at: u32) {
        if let Some(body) = self.current_index(body)
            && self.reads.insert((body, at))
        {
            self.node(body).looked_at.push(at);
        }
    }

    fn current_index(&self, at: TraceNodeId) -> Option<u32> {
        (at.id != NO_NODE && at.round == self.round).then_some(at.id)
    }
}

fn node_record(node: &Node) -> NodeRecord {
    let kind = match &node.op {
        NodeOp::F32(_) | NodeOp::F64(_) | NodeOp::Plain(_) => NodeKind::Constant,
        NodeOp::Weight(..) => NodeKind::Weight,
        NodeOp::Dynamic(_) => NodeKind::Decision,
        NodeOp::Seed(_) => NodeKind::Seed,
        _ => NodeKind::Operation,
    };
    let record = NodeRecord::new(kind, node.name_or_panic(), node.place);
    let internal = matches!(&node.op, NodeOp::Dynamic(recipe) if recipe.is_internal());
    let variable = match &node.op {
        NodeOp::Weight(variable, _) => Some(variable.id()),
        _ => None,
    };
    NodeRecord { calls: node.calls(), direction: node.direction(), variable, internal, ..record }
}

/// Renumbers the nodes in topological order: the nodes that a node refers to come before it.
fn renumber_topologically(record: &mut PassRecord) {
    let nodes = &record.nodes;
    let mentioned = |id: u32, which: usize| {
        let NodeRecord { operands, looked_at, became, .. } = &nodes[id as usize];
        operands.iter().chain(looked_at).chain(became).nth(which).copied()
    };
    let mut seen = vec![false; nodes.len()];
    let enters = |_, id: u32| !std::mem::replace(&mut seen[id as usize], true);
    let order = postorder(0..nodes.len() as u32, mentioned, enters);
    let mut number = vec![0; nodes.len()];
    for (new, &old) in (0..).zip(&order) {
        number[old as usize] = new;
    }
    let renumber = |id: &mut u32| *id = number[*id as usize];
    let mut old: Vec<Option<NodeRecord>> = std::mem::take(&mut record.nodes).into_iter().map(Some).collect();
    record.nodes = order.iter().filter_map(|&id| old[id as usize].take()).collect();
    for NodeRecord { operands, looked_at, became, .. } in &mut record.nodes {
        operands.iter_mut().chain(looked_at).chain(became).for_each(renumber);
    }
    record.spans.iter_mut().filter_map(|span| span.node.as_mut()).for_each(renumber);
    record.decisions.iter_mut().filter_map(|decision| decision.node.as_mut()).for_each(renumber);
}
