//! Retention: how the values of a pass are stored, and when they are released.
//!
//! A value that no backward needs is released when all its inserted consumers are completed and
//! every handle to its node belongs to the pass or to one of these consumers. Nothing can request
//! the value after that, whatever layers a dynamic node builds.

use crate::error::Result;
use crate::exec::buffer_update::Update;
use crate::exec::node_table::{NONE, SlotState, Status};
use crate::exec::state::PassState;
use crate::exec::{Keep, user_code};
use crate::graph::identity::Effect;
use crate::graph::node::{Node, NodeOp};
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;

impl PassState {
    /// Stores the result of a node that has an ext.
    #[inline(always)]
    pub(super) fn store(&mut self, index: u32, node: &Node, result: Result<Value>) {
        let (slot, ext) = self.nodes.parts_mut(index);
        // The value of a dynamic node is usually the value of another node, and must be counted
        // once.
        let own = slot.operands[0] == NONE || !matches!(node.op, NodeOp::Dynamic(_));
        let measured = result.and_then(|value| match own && Scalar::of(&value).is_none() {
            true => {
                let bytes = user_code::run(|| (node.vtable.bytes)(&value));
                let bytes = bytes.map_err(|error| error.at("size of a value", node.site()))?;
                Ok((value, bytes))
            }
            false => Ok((value, 0)),
        });
        match measured {
            Ok((value, bytes)) => match Scalar::of(&value) {
                Some(number) => slot.set_number(number),
                None => {
                    ext.bytes = bytes;
                    self.stats.holds(bytes);
                    slot.state = SlotState::Ready;
                    ext.outcome = Some(Ok(value));
                }
            },
            Err(error) => {
                slot.state = SlotState::Failed;
                ext.outcome = Some(Err(error));
            }
        }
    }

    /// Whether every handle to the node of this slot belongs to the pass or to its consumers, so
    /// that only these can request its value.
    pub(super) fn is_unreachable(&self, index: u32) -> bool {
        let ext = self.nodes.ext(index).expect("a slot that counts its uses has an ext");
        self.node(index).handles() <= usize::from(ext.is_root()) + ext.uses as usize
    }

    /// Releases the value of a slot if nothing can request it any more.
    pub(super) fn release_if_unused(&mut self, index: u32) {
        if !self.is_releasable(index) || self.nodes.ext_mut(index).pending_uses > 0 {
            return;
        }
        match self.entry(index).state {
            // The value was moved to the consumer that is completed now.
            SlotState::Released => self.forget_bytes(index),
            SlotState::Ready if self.is_unreachable(index) => self.discard_value(index),
            _ => {}
        }
    }

    /// Whether values are released after their last use, in the whole pass or below a boundary.
    #[inline]
    pub(super) fn releases_values(&self) -> bool {
        self.env.keep() == Keep::Nothing || self.has_forgotten()
    }

    /// Whether the value of this slot is released after its last use.
    #[inline]
    fn is_releasable(&self, index: u32) -> bool {
        self.nodes.ext(index).is_some_and(|ext| ext.scheduled && (ext.discards || self.env.keep() == Keep::Nothing))
    }

    /// Retains the value of this slot, if it is available.
    pub(super) fn keep_value(&mut self, index: u32) {
        if self.nodes.is_scheduled(index) {
            self.nodes.ext_mut(index).discards = false;
        }
    }

    /// Takes a value that is not a number out of its slot.
    pub(super) fn take_value(&mut self, index: u32) -> Value {
        self.tell_value(index);
        let (slot, ext) = self.nodes.parts_mut(index);
        slot.state = SlotState::Released;
        match ext.outcome.take() {
            Some(Ok(value)) => value,
            _ => unreachable!("only a value that is there is taken"),
        }
    }

    pub(super) fn discard_value(&mut self, index: u32) {
        if self.entry(index).state == SlotState::Ready {
            let value = self.take_value(index);
            let place = self.node(index).place;
            self.deferred.drop_value(value, place);
        }
        self.forget_bytes(index);
    }

    pub(super) fn discard_all_values(&mut self) {
        for index in self.nodes.indices() {
            if self.entry(index).state == SlotState::Ready {
                self.discard_value(index);
            }
        }
    }

    pub(super) fn forget_bytes(&mut self, index: u32) {
        if self.nodes.ext(index).is_some() {
            let bytes = std::mem::take(&mut self.nodes.ext_mut(index).bytes);
            self.stats.releases(bytes);
        }
    }

    /// The value of an operand for a kernel that runs without the lock. A value that nothing else
    /// can request is moved out.
    #[inline]
    pub(super) fn take_operand(&mut self, index: u32, which: usize) -> Value {
        let operand = self.operand(index, which);
        if let Some(number) = self.entry(operand).number() {
            return number.into();
        }
        let is_last = self.is_releasable(operand)
            && self.entry(operand).state == SlotState::Ready
            && self.nodes.ext_mut(operand).pending_uses == 1
            && self.is_unreachable(operand);
        if is_last { self.take_value(operand) } else { self.value(operand).to_value() }
    }

    /// The updates of buffers that were evaluated.
    pub(super) fn updates(&self, into: &mut Vec<Update>) {
        let update = |&index: &u32| {
            let node = self.node(index);
            matches!(self.status(index), Status::Ready(_) | Status::Released).then(|| Update {
                buffer: node.operands()[Effect::BUFFER].clone(),
                value: self.value(self.operand(index, Effect::NEW_VALUE)).to_value(),
                place: node.place,
            })
        };
        into.extend(self.retention.updates().iter().filter_map(update));
    }
}
