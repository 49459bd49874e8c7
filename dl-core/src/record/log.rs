//! What one pass has told so far.
//!
//! An entry of a pass is used again when its node is gone, so a node of the record has a number of
//! its own, which it gets when it is first mentioned. Its lock is taken while that of the books may
//! be held, never the other way round.

use crate::error::branch::Branch;
use crate::graph::node::{Expression, Node};
use crate::record::recorder::{Threads, lock};
use crate::record::{Decision, NodeKind, NodeRecord, PassRecord, Span, SpanWork};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) struct Log {
    since: Instant,
    threads: Arc<Threads>,
    state: Mutex<State>,
}

/// A node of the record, as work that is under way remembers it.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    /// How often the record had been taken before.
    round: u32,
    id: u32,
}

const NOBODY: u32 = u32::MAX;

impl Told {
    pub(crate) const NOBODY: Told = Told { round: 0, id: NOBODY };
}

#[derive(Default)]
pub(crate) struct State {
    round: u32,
    /// Whether somebody drives the pass.
    runs: bool,
    handed_out: bool,
    record: PassRecord,
    /// For each entry of the pass the number of its node, if it has one.
    ids: Vec<u32>,
    /// For each node whether all is told.
    complete: Vec<bool>,
    looks: HashSet<(u32, u32)>,
}

impl Log {
    pub(super) fn new(since: Instant, threads: Arc<Threads>) -> Self {
        let record = PassRecord { began: since.elapsed(), ..PassRecord::default() };
        let state = State { runs: true, record, ..State::default() };
        Log { since, threads, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A thread has worked for the pass, from then until now.
    pub(crate) fn worked(&self, work: SpanWork, at: Told, began: Instant) {
        let (began, ended) = (began.saturating_duration_since(self.since), self.since.elapsed());
        let thread = self.threads.number();
        let mut state = self.state();
        if at.id != NOBODY && at.round != state.round {
            return; // it belongs to what was taken
        }
        let node = state.known(at);
        state.record.spans.push(Span { work, node, thread, began, ended });
    }

    /// A way was taken in the body of this node.
    pub(crate) fn took(&self, at: Told, branch: &'static Branch, taken: usize) {
        let mut state = self.state();
        let node = state.known(at);
        let looked_at = node.map_or(0, |node| state.record.nodes[node as usize].looked_at.len() as u32);
        state.record.decisions.push(Decision { node, branch, taken, looked_at });
    }

    /// Nobody drives the pass any more.
    pub(crate) fn rests(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.runs) {
            state.record.ended = self.since.elapsed();
        }
    }

    /// The opposite. Says whether the record was taken meanwhile.
    pub(super) fn goes_on(&self) -> bool {
        let mut state = self.state();
        state.runs = true;
        let taken = std::mem::take(&mut state.handed_out);
        if taken {
            state.record.began = self.since.elapsed();
        }
        taken
    }

    /// Whether the record is to be taken now.
    pub(super) fn hands_out(&self) -> bool {
        let mut state = self.state();
        state.handed_out = !state.runs;
        state.handed_out
    }

    /// The record, unless the pass did nothing.
    pub(super) fn take(&self) -> Option<PassRecord> {
        let mut state = self.state();
        let round = state.round + 1;
        // a pass that goes on at this moment is listed again
        let fresh = State { round, runs: state.runs, handed_out: state.handed_out, ..State::default() };
        let State { mut record, .. } = std::mem::replace(&mut *state, fresh);
        drop(state);
        let is_empty = record.nodes.is_empty() && record.spans.is_empty() && record.decisions.is_empty();
        // threads that were at work when the last driver left
        record.ended = record.spans.iter().map(|span| span.ended).fold(record.ended, Duration::max);
        // a walk back on a tape, before somebody drives the pass again
        record.began = record.spans.iter().map(|span| span.began).fold(record.began, Duration::min);
        in_order(&mut record);
        (!is_empty).then_some(record)
    }
}

impl State {
    /// The number of the node of this entry.
    pub(crate) fn id(&mut self, entry: u32, node: &Node) -> u32 {
        let entry = entry as usize;
        if self.ids.len() <= entry {
            self.ids.resize(entry + 1, NOBODY);
        }
        if self.ids[entry] == NOBODY {
            self.ids[entry] = self.record.nodes.len() as u32;
            self.record.nodes.push(met(node));
            self.complete.push(false);
        }
        self.ids[entry]
    }

    pub(crate) fn told(&mut self, entry: u32, node: &Node) -> Told {
        Told { round: self.round, id: self.id(entry, node) }
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

    /// The node of this entry is gone.
    pub(crate) fn forget(&mut self, entry: u32) {
        if let Some(id) = self.ids.get_mut(entry as usize) {
            *id = NOBODY;
        }
    }

    /// The body of a node has looked at another one.
    pub(crate) fn looked(&mut self, body: Told, at: u32) {
        if let Some(body) = self.known(body)
            && self.looks.insert((body, at))
        {
            self.node(body).looked_at.push(at);
        }
    }

    fn known(&self, told: Told) -> Option<u32> {
        (told.id != NOBODY && told.round == self.round).then_some(told.id)
    }
}

fn met(node: &Node) -> NodeRecord {
    let kind = match &node.expression {
        Expression::F32(_) | Expression::F64(_) | Expression::Plain(_) => NodeKind::Constant,
        Expression::Weight(..) => NodeKind::Weight,
        Expression::Dynamic(_) => NodeKind::Decision,
        Expression::Seed(_) => NodeKind::Seed,
        _ => NodeKind::Operation,
    };
    let record = NodeRecord::new(kind, node.name_or_panic(), node.place);
    let internal = matches!(&node.expression, Expression::Dynamic(recipe) if recipe.is_internal());
    let variable = match &node.expression {
        Expression::Weight(variable, _) => Some(variable.id()),
        _ => None,
    };
    NodeRecord { calls: node.calls(), direction: node.direction(), variable, internal, ..record }
}

/// Numbers the nodes anew: those that a node mentions come before it.
fn in_order(record: &mut PassRecord) {
    let nodes = &record.nodes;
    let mentioned = |id: u32, which: usize| {
        let NodeRecord { operands, looked_at, became, .. } = &nodes[id as usize];
        operands.iter().chain(looked_at).chain(became).nth(which).copied()
    };
    let (mut seen, mut order, mut walk) = (vec![false; nodes.len()], Vec::with_capacity(nodes.len()), Vec::new());
    for root in 0..nodes.len() as u32 {
        if !std::mem::replace(&mut seen[root as usize], true) {
            walk.push((root, 0));
        }
        while let Some((id, next)) = walk.last_mut() {
            let below = mentioned(*id, *next);
            *next += 1;
            match below {
                Some(below) if !std::mem::replace(&mut seen[below as usize], true) => walk.push((below, 0)),
                Some(_) => {}
                None => {
                    order.push(*id);
                    walk.pop();
                }
            }
        }
    }
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
