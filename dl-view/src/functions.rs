//! The call tree of the `#[differentiable]` functions in which layers were built. Deltas have a
//! tree of their own, so that the backward pass of a function is drawn in its own box.

use dl_core::record::{Direction, NodeRecord};
use dl_core::{Call, Calls};
use std::collections::HashMap;

/// All call chains of a record. Calls of one function from one place with equal callers are one
/// entry.
#[derive(Default)]
pub(crate) struct Functions {
    each: Vec<Function>,
    known: HashMap<(Option<usize>, Call, Direction), usize>,
    of_calls: HashMap<(Calls, Direction), Option<usize>>,
}

pub(crate) struct Function {
    pub(crate) call: Call,
    pub(crate) caller: Option<usize>,
    /// The length of the call chain; 1 for an outermost function.
    pub(crate) depth: usize,
    pub(crate) direction: Direction,
}

impl Function {
    /// A name, prefixed with `∂` for the backward direction.
    pub(crate) fn marked(&self, name: &str) -> String {
        match self.direction {
            Direction::Backward => format!("∂ {name}"),
            _ => name.to_string(),
        }
    }
}

impl Functions {
    /// The innermost function of a call chain, if it is not empty.
    pub(crate) fn innermost(&mut self, calls: Calls, direction: Direction) -> Option<usize> {
        if let Some(&known) = self.of_calls.get(&(calls, direction)) {
            return known;
        }
        let mut function = None;
        let mut outwards: Vec<Call> = calls.frames().collect();
        outwards.reverse();
        for call in outwards {
            let depth = function.map_or(0, |caller: usize| self.each[caller].depth) + 1;
            let next = self.each.len();
            let id = *self.known.entry((function, call, direction)).or_insert(next);
            if id == next {
                self.each.push(Function { call, caller: function, depth, direction });
            }
            function = Some(id);
        }
        self.of_calls.insert((calls, direction), function);
        function
    }

    pub(crate) fn get(&self, id: usize) -> &Function {
        &self.each[id]
    }

    pub(crate) fn ids(&self) -> std::ops::Range<usize> {
        0..self.each.len()
    }

    /// This function and its callers, innermost first.
    pub(crate) fn ancestors(&self, from: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(from, |&id| self.each[id].caller)
    }

    /// The innermost function that contains both.
    pub(crate) fn common(&self, left: Option<usize>, right: Option<usize>) -> Option<usize> {
        let mut of_left = self.ancestors(left);
        of_left.find(|&id| self.ancestors(right).any(|other| other == id))
    }
}

/// The source location of a layer, followed by its call chain on separate lines.
pub(crate) fn source_location(node: &NodeRecord) -> String {
    match node.calls.is_empty() {
        true => node.place.to_string(),
        false => format!("{}\n{}", node.place, node.calls),
    }
}
