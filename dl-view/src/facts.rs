//! What a record says, looked up: the time of each layer, what a layer turned out to be, what each
//! decision was taken by.

use crate::functions::Functions;
use crate::scene::Outcome;
use dl_core::record::{Direction, NodeKind, NodeRecord, PassRecord, SpanWork};
use std::collections::HashMap;
use std::time::Duration;

/// Why a layer is in the picture, or is not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is drawn.
    Drawn,
    /// It decides: what is drawn is each of its decisions.
    Ways,
    /// It is not drawn: part of the way back, a plain number, or nothing but another layer.
    Hidden,
}

pub(crate) struct Facts<'a> {
    pub(crate) record: &'a PassRecord,
    names: &'a HashMap<u64, String>,
    pub(crate) functions: Functions,
    /// For each node.
    pub(crate) time: Vec<Duration>,
    /// Of the walks back, which are the work of no layer.
    pub(crate) walks: Duration,
    pub(crate) part: Vec<Part>,
    pub(crate) function: Vec<Option<usize>>,
    pub(crate) outcome: Vec<Outcome>,
    /// Indices of the decisions that were taken in its body, in the order of time.
    pub(crate) ways: Vec<Vec<usize>>,
    /// What it turned out to be in the end: itself, if it decides nothing.
    turned_out: Vec<usize>,
}

impl<'a> Facts<'a> {
    pub(crate) fn of(record: &'a PassRecord, names: &'a HashMap<u64, String>, backward: bool) -> Facts<'a> {
        let count = record.nodes.len();
        let (mut time, mut walks) = (vec![Duration::ZERO; count], Duration::ZERO);
        for (span, own) in record.spans.iter().zip(crate::time::own(&record.spans)) {
            if span.work == SpanWork::Backward {
                walks += own;
            } else if let Some(time) = span.node.and_then(|node| time.get_mut(node as usize)) {
                *time += own;
            }
        }
        let mut ways = vec![Vec::new(); count];
        for (index, decision) in record.decisions.iter().enumerate() {
            if let Some(ways) = decision.node.and_then(|node| ways.get_mut(node as usize)) {
                ways.push(index);
            }
        }
        let mut functions = Functions::default();
        let function = record.nodes.iter().map(|node| functions.innermost(node.calls, node.direction)).collect();
        let part = vec![Part::Hidden; count];
        let (outcome, turned_out) = (outcomes(&record.nodes), turned_out(&record.nodes));
        let mut facts = Facts { record, names, functions, time, walks, part, function, outcome, ways, turned_out };
        facts.part = facts.parts(backward);
        facts
    }

    pub(crate) fn node(&self, node: usize) -> &'a NodeRecord {
        &self.record.nodes[node]
    }

    /// The path of a variable, if it is known; else what a layer is called.
    pub(crate) fn name<'n>(&'n self, node: &'n NodeRecord) -> &'n str {
        node.variable.and_then(|variable| self.names.get(&variable)).map_or(node.name, String::as_str)
    }

    /// What a layer turned out to be.
    pub(crate) fn value_of(&self, node: usize) -> usize {
        self.turned_out[node]
    }

    /// The layers of this list that the record knows.
    pub(crate) fn known<'l>(&self, list: &'l [u32]) -> impl Iterator<Item = usize> + use<'l> {
        let count = self.record.nodes.len();
        list.iter().map(|&node| node as usize).filter(move |&node| node < count)
    }

    fn parts(&self, backward: bool) -> Vec<Part> {
        let nodes = &self.record.nodes;
        // plain numbers are drawn only where nothing else would be: as the result
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
                NodeKind::Decision if !self.ways[index].is_empty() => return Part::Ways,
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

/// Whether a value is an array: `f32[16, 64]`.
pub(crate) fn has_shape(value: &str) -> bool {
    value.contains('[')
}

/// What became of each node. A failure is handed on to all that needs the value, in the same words:
/// only where it is new something failed.
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

/// What each node turned out to be in the end.
fn turned_out(nodes: &[NodeRecord]) -> Vec<usize> {
    const UNKNOWN: usize = usize::MAX;
    let mut end = vec![UNKNOWN; nodes.len()];
    let mut trail = Vec::new();
    for node in 0..nodes.len() {
        let mut at = node;
        let last = loop {
            if end[at] != UNKNOWN {
                break end[at];
            }
            // for as long as it is on the trail: a circle ends here
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
