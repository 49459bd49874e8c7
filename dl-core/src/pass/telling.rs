//! Telling the books to a record, if the pass has one.
//!
//! Entries are told when they are given up and when the pass rests, values also when they go, so that nothing is done while layers are entered. What is told before, because
//! it is at work or was mentioned, is completed then.

use super::Pass;
use super::books::Books;
use super::context;
use super::entry::{NONE, Seen, Status};
use crate::calls::Branch;
use crate::node::{AnyLayer, Node};
use crate::record::{Log, NodeRecord, State, Told};
use crate::value::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

impl Books {
    /// What the record calls this entry.
    #[inline]
    pub(crate) fn told(&self, index: u32) -> Told {
        match &self.log {
            None => Told::NOBODY,
            Some(log) => log.state().told(index, &self.node(index)),
        }
    }

    /// Tells all that there is to tell.
    pub(super) fn tell_all(&self) {
        let Some(log) = &self.log else { return };
        let mut state = log.state();
        for index in 0..self.entries.len() as u32 {
            if self.entry(index).node.is_some() {
                self.tell(&mut state, index);
            }
        }
    }

    /// This entry is about to be given up.
    #[inline]
    pub(super) fn tell_gone(&self, index: u32) {
        if let Some(log) = &self.log {
            let mut state = log.state();
            self.tell(&mut state, index);
            state.forget(index);
        }
    }

    /// The value of this entry is about to go.
    #[inline]
    pub(super) fn tell_value(&self, index: u32) {
        if let Some(log) = &self.log {
            let mut state = log.state();
            let id = state.id(index, &self.node(index));
            self.describe(index, state.node(id));
        }
    }

    /// These layers, as far as they are new, were written as derivatives of the node of this entry.
    pub(crate) fn tell_written<'a>(&self, index: u32, layers: impl IntoIterator<Item = &'a AnyLayer>) {
        if let Some(log) = &self.log {
            let mut state = log.state();
            let of = state.id(index, &self.node(index));
            layers.into_iter().for_each(|layer| state.wrote(layer, of, |node| self.find(node).is_some()));
        }
    }

    fn tell(&self, state: &mut State, index: u32) {
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
        if self.ended(index) {
            state.complete(id);
        }
    }

    /// The same as `operand`, also for an entry whose operands are still being entered.
    fn operand_if_entered(&self, index: u32, node: &Node, which: usize) -> Option<u32> {
        let known = self.entry(index).operands.get(which).copied().filter(|&operand| operand != NONE);
        known.or_else(|| self.find(&node.operands()[which]))
    }

    fn describe(&self, index: u32, record: &mut NodeRecord) {
        let node = self.node(index);
        match self.status(index) {
            Status::Done(value) if record.value.is_empty() => {
                let is_another = node.is_dynamic() && self.source(index) != NONE;
                (record.value, record.bytes) = described(&node, value);
                if is_another {
                    record.bytes = 0;
                }
            }
            Status::Failed(error) => record.failure = Some(error.to_string()),
            _ => {}
        }
    }
}

/// Type and shape of a value, and its size. A type that panics instead of saying it says nothing.
fn described(node: &Node, value: Seen<'_>) -> (String, usize) {
    let value: &Value = value.as_value();
    let kind = node.kind_of_data;
    catch_unwind(AssertUnwindSafe(|| ((kind.describe)(value), (kind.bytes)(value)))).unwrap_or_default()
}

impl Pass {
    /// What the record calls this layer, if the pass has met it.
    pub(crate) fn told(&self, layer: &AnyLayer) -> Told {
        if self.log().is_none() {
            return Told::NOBODY;
        }
        let books = self.books();
        books.find(layer).map_or(Told::NOBODY, |index| books.told(index))
    }

    /// This layer was written as the derivative of another one.
    pub(crate) fn tell_written(&self, of: &AnyLayer, layer: &AnyLayer) {
        if self.log().is_some() {
            let mut books = self.books();
            if let Some(index) = books.find_any_leaf(of) {
                books.tell_written(index, [layer]);
            }
        }
    }

    /// The body that this thread is polling looks at the layer of this entry.
    #[inline]
    pub(super) fn looks(&self, books: &Books, index: u32) {
        if let Some(log) = self.log()
            && context::is_current(self)
        {
            let mut state = log.state();
            let at = state.id(index, &books.node(index));
            state.looked(context::told(), at);
        }
    }

    /// The body that this thread is polling took one of the ways of a branch.
    pub(crate) fn took(&self, branch: &'static Branch, arm: usize) {
        if let Some(log) = self.log() {
            log.took(context::told(), branch, arm);
        }
    }

    /// The pass rests, or is over.
    pub(super) fn tell_rest(&self, books: &Books) {
        if let Some(log) = self.log() {
            books.tell_all();
            log.rests();
        }
    }

    /// The same, of a pass that nobody else has.
    pub(super) fn tell_end(&mut self) {
        if self.watch.log.is_some() {
            self.tell_rest(&self.books());
        }
    }

    #[inline]
    fn log(&self) -> Option<&Arc<Log>> {
        self.watch.log.as_ref()
    }
}
