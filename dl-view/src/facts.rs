//! Per-node facts derived from a record: self times, the value each layer resolves to, the
//! decisions of each body.

use crate::functions::Functions;
use crate::scene::Outcome;
use dl_core::record::{Direction, NodeKind, NodeRecord, PassRecord, SpanWork};
use std::collections::HashMap;
use std::time::Duration;

/// How a layer appears in the picture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The layer is an item.
    Drawn,
    /// The layer is represented by the decisions of its body.
    Decisions,
    /// The layer is omitted: a delta of a forward picture, a scalar constant, or a wrapper around
    /// another layer.
    Hidden,
}

pub(crate) struct Facts<'a> {
    pub(crate) record: &'a PassRecord,
    names: &'a HashMap<u64, String>,
    pub(crate) functions: Functions,
    /// The self time of each node.
    pub(crate) time: Vec<Duration>,
    /// The total self time of backward constructions, which belong to no layer.
    pub(crate) walks: Duration,
    pub(crate) part: Vec<Part>,
    pub(crate) function: Vec<Option<usize>>,
    pub(crate) outcome: Vec<Outcome>,
    /// The indices of the decisions taken in the body of each node, in order of time.
    pub(crate) decisions: Vec<Vec<usize>>,
    /// The node that each node resolves to; a node that is not dynamic resolves to itself.
    resolved: Vec<usize>,
}

impl<'a> Facts<'a> {
    pub(crate) fn of(record: &'a PassRecord, names: &'a HashMap<u64, String>, backward: bool) -> Facts<'a> {
        let count = record.nodes.len();
        let (mut time, mut walks) = (vec![Duration::ZERO; count], Duration::ZERO);
        for (span, own) in record.spans.iter().zip(crate::time::self_times(&record.spans)) {
            if span.work == SpanWork::Backward {
                walks += own;
            } else if let Some(time) = span.node.and_then(|node| time.get_mut(node as usize)) {
                *time += own;
            }
        }
        let mut decisions = vec![Vec::new(); count];
        for (index, decision) in record.decisions.iter().enumerate() {
            if let Some(of_node) = decision.node.and_then(|node| decisions.get_mut(node as usize)) {
                of_node.push(index);
            }
        }
        let mut functions = Functions::default();
        let function = record.nodes.iter().map(|node| functions.innermost(node.calls, node.direction)).collect();
        let part = vec![Part::Hidden; count];
        let (outcome, resolved) = (outcomes(&record.nodes), resolved(&record.nodes));
        let mut facts = Facts { record, names, functions, time, walks, part, function, outcome, decisions, resolved };
        facts.part = facts.parts(backward);
        facts
    }

    pub(crate) fn node(&self, node: usize) -> &'a NodeRecord {
        &self.record.nodes[node]
    }

    /// The module path of a variable, if it is known; otherwise the name of the layer.
    pub(crate) fn name<'n>(&'n self, node: &'n NodeRecord) -> &'n str {
        node.variable.and_then(|variable| self.names.get(&variable)).map_or(node.name, String::as_str)
    }

    /// The node that this node resolves to.
    pub(crate) fn value_of(&self, node: usize) -> usize {
        self.resolved[node]
    }

    /// The entries of this list that are valid node indices.
    pub(crate) fn known<'l>(&self, list: &'l [u32]) -> impl Iterator<Item = usize> + use<'l> {
        let count = self.record.nodes.len();
        list.iter().map(|&node| node as usize).filter(move |&node| node < count)
    }

    fn parts(&self, backward: bool) -> Vec<Part> {
        let nodes = &self.record.nodes;
        // Scalar constants are drawn only as results, where nothing else would be drawn.
        let [mut is_operand, mut is_result, mut is_internal] = [(); 3].map(|()| vec![false; nodes.len()]);
        for node in nodes {
            self.known(&node.operands).for_each(|operand| is_operand[self.value_of(operand)] = true);
            let became = if node.internal { &mut is_internal } else { &mut is_result };
            self.known(node.became.as_slice()).for_each(|result| became[self.value_of(result)] = true);
        }
        let part = |(index, node): (usize, &NodeRecord)| {
            if node.direction == Direction::Backward && !backward {
                return Part::Hidden;
            }
            let drawn = match node.kind {
                _ if node.internal => node.failure.is_some(),
                NodeKind::Decision if !self.decisions[index].is_empty() => return Part::Decisions,
                NodeKind::Decision => !node.looked_at.is_empty() || node.failure.is_some(),
                NodeKind::Constant => {
                    has_shape(&node.value) || is_result[index] || !is_operand[index] && !is_internal[index]
                }
                _ => true,
            };
            if drawn { Part::Drawn } else { Part::Hidden }
        };
        nodes.iter().enumerate().map(part).collect()
    }
}

/// Whether a value is an array, for example `f32[16, 64]`.
pub(crate) fn has_shape(value: &str) -> bool {
    value.contains('[')
}

/// The outcome of each node. A node that fails because of an input repeats the message of the
/// input, so a failure whose message is new originates in the node itself.
fn outcomes(nodes: &[NodeRecord]) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Computed; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let needed = node.operands.iter().chain(&node.looked_at).chain(&node.became);
        let mut needed = needed.map(|&needed| needed as usize).filter(|&needed| needed < nodes.len());
        outcomes[index] = match &node.failure {
            Some(failure) => {
                let hands_on = |from: usize| nodes[from].failure.as_ref().is_some_and(|known| failure.contains(known));
                let inherited = needed.any(|from| from != index && hands_on(from));
                if inherited { Outcome::NotComputed } else { Outcome::Failed }
            }
            None if node.value.is_empty() && needed.any(|from| outcomes[from] != Outcome::Computed) => {
                Outcome::NotComputed
            }
            None => Outcome::Computed,
        };
    }
    outcomes
}

/// The node that each node resolves to.
fn resolved(nodes: &[NodeRecord]) -> Vec<usize> {
    const UNKNOWN: usize = usize::MAX;
    let mut end = vec![UNKNOWN; nodes.len()];
    let mut trail = Vec::new();
    for node in 0..nodes.len() {
        let mut at = node;
        let last = loop {
            if end[at] != UNKNOWN {
                break end[at];
            }
            // Marks a node on the trail as resolved to itself, so that a cycle ends the search.
            end[at] = at;
            trail.push(at);
            match nodes[at].became {
                Some(next) if (next as usize) < nodes.len() => at = next as usize,
                _ => break at,
            }
        };
        trail.drain(..).for_each(|passed| end[passed] = last);
    }
    end
}
