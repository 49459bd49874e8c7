//! The values of a pass: how they get into the books, and when they go.
//!
//! Where a value is not needed for a backward it goes when all consumers that were met are done,
//! and all handles to its node are those of the pass or of these consumers: then nobody can ask for
//! it again, whatever a dynamic node may still build.

use super::Keep;
use super::books::Books;
use super::entry::{NONE, Scalar, State, Status};
use crate::commit::Update;
use crate::error::{Error, Result};
use crate::node::{Expression, Node};
use crate::value::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Books {
    /// Writes down the result of an entry. What comes back is the list of those who wait for it.
    #[inline(always)]
    pub(super) fn write_down(&mut self, index: u32, node: &Node, result: Result<Value>) -> u32 {
        let entry = &mut self.entries[index as usize];
        let links = &mut self.links[entry.links as usize];
        // the value of a dynamic node is mostly that of another node
        let own = entry.operands[0] == NONE || !matches!(node.expression, Expression::Dynamic(_));
        let measured = result.and_then(|value| match own && Scalar::of(&value).is_none() {
            true => match catch_unwind(AssertUnwindSafe(|| (node.kind_of_data.bytes)(&value))) {
                Ok(bytes) => Ok((value, bytes)),
                Err(payload) => Err(Error::panic(payload).at("size of a value", node.site())),
            },
            false => Ok((value, 0)),
        });
        match measured {
            Ok((value, bytes)) => match Scalar::of(&value) {
                Some(number) => entry.set_number(number),
                None => {
                    links.bytes = bytes;
                    self.count.holds(bytes);
                    entry.state = State::Done;
                    links.outcome = Some(Ok(value));
                }
            },
            Err(error) => {
                entry.state = State::Failed;
                links.outcome = Some(Err(error));
            }
        }
        std::mem::replace(&mut links.waiting, NONE)
    }

    /// Whether nobody but those who have been met can ask for the value of this entry: all handles
    /// to its node are ours or those of its consumers.
    pub(super) fn unreachable(&self, index: u32) -> bool {
        self.entry(index).state == State::Done && self.is_known_to_consumers_only(index)
    }

    fn is_known_to_consumers_only(&self, index: u32) -> bool {
        let entry = self.entry(index);
        let links = &self.links[entry.links as usize];
        entry.held().handles() <= usize::from(links.root != NONE) + links.consumers as usize
    }

    /// Whether the value of this entry, which has not ended, is going to be of no use as soon as
    /// the only operation has been run that waits for it.
    pub(super) fn goes_with_next(&self, index: u32) -> bool {
        self.log.is_none()
            && self.lets_go(index)
            && self.links[self.entry(index).links as usize].unfinished == 1
            && self.is_known_to_consumers_only(index)
    }

    /// Writes down that such an entry has ended.
    pub(super) fn finish_and_let_go(&mut self, index: u32) {
        let node = self.node(index);
        self.count.so_far.evaluations += 1;
        self.entries[index as usize].state = State::Freed;
        self.part_from_operands(index, &node);
        let links = self.linked(index);
        if links.awaited || links.waiting != NONE {
            // somebody has come by a handle and asked for it meanwhile
            self.evaluate_again(index);
        }
    }

    /// Lets go of the value of an entry when nobody can ask for it any more.
    pub(super) fn free(&mut self, index: u32) {
        if !self.lets_go(index) {
            return;
        }
        if self.linked(index).unfinished > 0 {
            return;
        }
        if self.entry(index).state == State::Freed {
            self.forget_bytes(index); // it was moved to the consumer that has ended now
        } else if self.unreachable(index) {
            self.discard_value(index);
        }
    }

    /// Whether the value of this entry goes when nobody needs it.
    #[inline]
    fn lets_go(&self, index: u32) -> bool {
        let links = self.entry(index).links;
        links != NONE && {
            let links = &self.links[links as usize];
            links.scheduled && (links.forgets || self.keep == Keep::Nothing)
        }
    }

    /// The value of this entry stays, if it is there.
    pub(super) fn keep_value(&mut self, index: u32) {
        if self.is_scheduled(index) {
            self.linked(index).forgets = false;
        }
    }

    /// The value of an entry that is no number and that nobody else needs.
    pub(super) fn take_value(&mut self, index: u32) -> Value {
        self.tell_value(index);
        self.entries[index as usize].state = State::Freed;
        match self.linked(index).outcome.take() {
            Some(Ok(value)) => value,
            _ => unreachable!("only a value that is there is taken"),
        }
    }

    pub(super) fn discard_value(&mut self, index: u32) {
        if self.entry(index).state == State::Done {
            let value = self.take_value(index);
            let place = self.node(index).place;
            self.discarded.push((value, place));
        }
        self.forget_bytes(index);
    }

    pub(super) fn discard_all_values(&mut self) {
        for index in 0..self.entries.len() as u32 {
            if self.entry(index).state == State::Done {
                self.discard_value(index);
            }
        }
    }

    pub(super) fn forget_bytes(&mut self, index: u32) {
        let entry = &self.entries[index as usize];
        if entry.links != NONE {
            let bytes = std::mem::take(&mut self.links[entry.links as usize].bytes);
            self.count.lets_go(bytes);
        }
    }

    /// The value of an operand of an entry whose kernel is to run, for the time when the books are
    /// unlocked. A value that nobody else can ask for any more is moved out.
    #[inline]
    pub(super) fn take_operand(&mut self, index: u32, which: usize) -> Value {
        let operand = self.operand(index, which);
        if let Some(number) = self.entry(operand).number() {
            return number.into();
        }
        let last = self.lets_go(operand) && self.linked(operand).unfinished == 1 && self.unreachable(operand);
        if last { self.take_value(operand) } else { self.value(operand).to_value() }
    }

    /// The updates of buffers that were evaluated.
    pub(super) fn updates(&self, into: &mut Vec<Update>) {
        let update = |&index: &u32| {
            let node = self.node(index);
            let Expression::Primitive(op) = &node.expression else { return None };
            match (op.update()?, self.status(index)) {
                (update, Status::Done(_) | Status::Freed) => {
                    let value = self.value(self.operand(index, update.new)).to_value();
                    Some(Update { buffer: update.buffer.clone(), value, place: node.place })
                }
                _ => None,
            }
        };
        into.extend(self.updates.iter().filter_map(update));
    }
}
