//! The node table of a pass: a slot for each node.
//!
//! # States of a slot
//!
//! ```text
//! Free -> Pending -> F32 | F64 | Ready | Failed
//! Ready -> Released                 the value is not needed any more
//! Released -> Pending               it is rematerialized
//! any completed state -> Free       the node is unreachable (`sweep.rs`)
//! ```
//!
//! A number is stored in the slot itself. A slot has a cold part, the [`SlotExt`], if its value is
//! not a number or if it could not be evaluated on insertion.
//!
//! # Invariants
//!
//! - Operands are inserted before their consumer.
//! - A slot is pending while it waits for inputs (`in_degree > 0`), or its job is queued or
//!   running.
//! - `uses` counts the operand edges from consumers that are not scalar arithmetic. `pending_uses`
//!   counts those of incomplete consumers. A value may be released only when `pending_uses == 0`
//!   and every handle to the node belongs to the pass or to such a consumer.
//! - Every node in the table is kept alive by a root handle of the pass, directly or from above.

use crate::error::Error;
use crate::exec::vec_pool;
use crate::graph::node_ref::{NodePtr, NodeRef};
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use dl_math::{Binary, Unary};
use smallvec::SmallVec;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Half a cache line: a scalar operation accesses three slots.
#[derive(Clone, Copy)]
pub(crate) struct NodeSlot {
    /// Absent when the slot is free.
    pub(crate) node: Option<NodePtr>,
    /// The bits of a number; otherwise the slot of the third operand, if there are three.
    pub(super) bits: u64,
    /// The slots of the first two operands, if there are at most three. For a dynamic node, the
    /// first is the slot of the layer that it has resolved to.
    pub(crate) operands: [u32; 2],
    /// The index of its [`SlotExt`], if it has one.
    pub(super) ext: u32,
    pub(super) state: SlotState,
    /// Whether a gradient can flow through it to a weight.
    pub(crate) trained: bool,
    /// The scalar operation, if it is one, so that the backward need not read the node.
    pub(crate) arithmetic: Arithmetic,
}

/// See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    Pending,
    F32,
    F64,
    /// Completed, with the value in the ext.
    Ready,
    Released,
    /// Completed, with the error in the ext.
    Failed,
}

impl NodeSlot {
    pub(super) const FREE: NodeSlot = NodeSlot {
        node: None,
        bits: NONE as u64,
        operands: [NONE; 2],
        ext: NONE,
        state: SlotState::Released,
        trained: false,
        arithmetic: Arithmetic::Other,
    };

    /// The slot of a node that waits to be evaluated.
    #[inline(always)]
    pub(super) fn pending(node: NodePtr, operands: [u32; 2]) -> NodeSlot {
        NodeSlot { node: Some(node), operands, state: SlotState::Pending, ..NodeSlot::FREE }
    }

    /// The slot of a node with a number as its value.
    #[inline(always)]
    pub(super) fn of_number(node: NodePtr, number: Scalar, trained: bool) -> NodeSlot {
        let (state, bits) = scalar_bits(number);
        NodeSlot { node: Some(node), bits, state, trained, ..NodeSlot::FREE }
    }

    /// The slot of this operand, or `NONE` if it must be looked up.
    #[inline(always)]
    pub(super) fn operand(&self, which: usize) -> u32 {
        match which {
            0 | 1 => self.operands[which],
            2 if self.number().is_none() => self.bits as u32,
            _ => NONE,
        }
    }

    /// Stores the slots of three operands: they are read a dozen times.
    pub(super) fn set_operands(&mut self, [first, second, third]: [u32; 3]) {
        self.operands = [first, second];
        self.bits = u64::from(third);
    }

    #[inline(always)]
    pub(crate) fn held(&self) -> NodePtr {
        self.node.expect("the slot is not free")
    }

    /// The value, if it is an available number.
    #[inline(always)]
    pub(crate) fn number(&self) -> Option<Scalar> {
        match self.state {
            SlotState::F32 => Some(Scalar::F32(f32::from_bits(self.bits as u32))),
            SlotState::F64 => Some(Scalar::F64(f64::from_bits(self.bits))),
            _ => None,
        }
    }

    pub(super) fn set_number(&mut self, number: Scalar) {
        (self.state, self.bits) = scalar_bits(number);
    }
}

/// The scalar operation, as far as it is stored in the slot.
#[derive(Clone, Copy)]
pub(crate) enum Arithmetic {
    Unary(Unary),
    Binary(Binary),
    /// Arithmetic with a constant, which is stored in the node; or no arithmetic.
    Other,
}

/// The state of a slot, with its value.
pub(crate) enum Status<'a> {
    Pending,
    Ready(ValueRef<'a>),
    Released,
    Failed(&'a Error),
}

/// A value in the node table.
pub(crate) enum ValueRef<'a> {
    Number(Value),
    Ready(&'a Value),
}

impl ValueRef<'_> {
    pub(crate) fn as_value(&self) -> &Value {
        match self {
            ValueRef::Number(value) => value,
            ValueRef::Ready(value) => value,
        }
    }

    /// An owned value. Large values are shared.
    pub(crate) fn to_value(&self) -> Value {
        self.as_value().clone()
    }
}

/// The cold part of a slot.
#[derive(Default)]
pub(super) struct SlotExt {
    /// The value, if it is not a number, or the error.
    pub(super) outcome: Option<Result<Value, Error>>,
    /// The number of incomplete operands.
    pub(super) in_degree: u32,
    /// The consumers that wait for it, once for each operand edge.
    dependents: SmallVec<[u32; 2]>,
    /// The operand edges that lead here, and those of them whose consumer is incomplete. Edges from
    /// scalar arithmetic are not counted: it reads numbers, which need not be released.
    pub(super) uses: u32,
    pub(super) pending_uses: u32,
    /// The number of dynamic nodes that have resolved to this one.
    pub(super) aliases: u32,
    /// The root handle of the pass, if it has one: it keeps the node and all below it alive.
    root: Option<NodeRef>,
    /// Whether the node could not be evaluated on insertion. Only then are its uses counted.
    pub(super) scheduled: bool,
    /// Whether wakers must be called on completion.
    pub(super) awaited: bool,
    /// Whether it has a future that waits or is being polled.
    pub(super) task: bool,
    /// Whether its value is released after its last use although the pass keeps values.
    pub(super) discards: bool,
    /// Whether it is being rematerialized.
    pub(super) again: bool,
    /// Whether it is a checkpoint boundary.
    pub(super) marked: bool,
    /// The size of the value, in bytes.
    pub(super) bytes: usize,
}

impl SlotExt {
    pub(super) fn has_dependents(&self) -> bool {
        !self.dependents.is_empty()
    }

    pub(super) fn is_root(&self) -> bool {
        self.root.is_some()
    }
}

/// All slots of a pass.
#[derive(Default)]
pub(super) struct NodeTable {
    slots: Vec<NodeSlot>,
    free: Vec<u32>,
    exts: Vec<SlotExt>,
    free_exts: Vec<u32>,
    /// The dependents of completed slots, to be notified. A worklist, so that long paths do not
    /// recurse.
    completed: Vec<u32>,
    /// Whether the values of new nodes are released after their last use, because no backward reads
    /// them.
    discards_new: bool,
}

impl NodeTable {
    /// Empties the table. Its memory is kept for the next pass, because growing it again costs more
    /// than a small pass. Values and nodes are dropped here. Returns whether a slot had an ext.
    pub(super) fn reset(&mut self) -> bool {
        vec_pool::clear(&mut self.slots);
        self.discards_new = false;
        // A root handle needs an ext, too.
        let has_exts = !self.exts.is_empty();
        if has_exts {
            vec_pool::clear(&mut self.exts);
            for table in [&mut self.free, &mut self.free_exts, &mut self.completed] {
                table.clear();
                table.shrink_to(vec_pool::SMALL);
            }
        }
        has_exts
    }

    /// The number of slots, including free ones.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of slots in use.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The numbers of all slots, including free ones.
    pub(super) fn indices(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Adds a slot. Returns its number, and whether a free slot was reused.
    #[inline(always)]
    pub(super) fn insert(&mut self, slot: NodeSlot) -> (u32, bool) {
        if self.free.is_empty() {
            vec_pool::push(&mut self.slots, slot);
            ((self.slots.len() - 1) as u32, false)
        } else {
            let index = self.take_free();
            self.slots[index as usize] = slot;
            (index, true)
        }
    }

    /// Out of line, but without the slot: it would be assembled in memory and copied from there,
    /// where it is not reused either (see [`vec_pool::push_made`]).
    #[inline(never)]
    fn take_free(&mut self) -> u32 {
        self.free.pop().expect("there is a free slot")
    }

    #[inline(always)]
    pub(super) fn slot(&self, index: u32) -> &NodeSlot {
        &self.slots[index as usize]
    }

    #[inline(always)]
    pub(super) fn slot_mut(&mut self, index: u32) -> &mut NodeSlot {
        &mut self.slots[index as usize]
    }

    pub(super) fn status(&self, index: u32) -> Status<'_> {
        let slot = self.slot(index);
        match slot.state {
            SlotState::Pending => Status::Pending,
            SlotState::Released => Status::Released,
            SlotState::F32 | SlotState::F64 => {
                Status::Ready(ValueRef::Number(slot.number().expect("the state says that it is a number").into()))
            }
            SlotState::Ready | SlotState::Failed => match &self.exts[slot.ext as usize].outcome {
                Some(Ok(value)) => Status::Ready(ValueRef::Ready(value)),
                Some(Err(error)) => Status::Failed(error),
                None => unreachable!("a completed slot has an outcome"),
            },
        }
    }

    #[inline]
    pub(super) fn value(&self, index: u32) -> ValueRef<'_> {
        let slot = self.slot(index);
        if slot.state == SlotState::Ready
            && let Some(Ok(value)) = &self.exts[slot.ext as usize].outcome
        {
            return ValueRef::Ready(value);
        }
        self.number_as_value(index)
    }

    /// Not inlined: tensors are read more often than numbers here.
    #[inline(never)]
    fn number_as_value(&self, index: u32) -> ValueRef<'_> {
        match self.status(index) {
            Status::Ready(value) => value,
            _ => unreachable!("a value is read when it is ready, and not after it was released"),
        }
    }

    /// The ext of a slot, if it has one.
    #[inline(always)]
    pub(super) fn ext(&self, index: u32) -> Option<&SlotExt> {
        self.exts.get(self.slot(index).ext as usize)
    }

    /// The ext of a scheduled slot, which has one.
    #[inline(always)]
    pub(super) fn ext_mut(&mut self, index: u32) -> &mut SlotExt {
        &mut self.exts[self.slots[index as usize].ext as usize]
    }

    /// Both parts of a slot that has an ext.
    #[inline(always)]
    pub(super) fn parts_mut(&mut self, index: u32) -> (&mut NodeSlot, &mut SlotExt) {
        let slot = &mut self.slots[index as usize];
        let ext = &mut self.exts[slot.ext as usize];
        (slot, ext)
    }

    /// The ext of a slot, created if there is none.
    #[inline]
    pub(super) fn ext_or_new(&mut self, index: u32) -> &mut SlotExt {
        if self.slots[index as usize].ext == NONE {
            self.add_ext(index);
        }
        self.ext_mut(index)
    }

    pub(super) fn add_ext(&mut self, index: u32) {
        let ext = SlotExt { discards: self.discards_new, ..SlotExt::default() };
        let place = match self.free_exts.pop() {
            Some(free) => {
                self.exts[free as usize] = ext;
                free
            }
            None => {
                vec_pool::push(&mut self.exts, ext);
                (self.exts.len() - 1) as u32
            }
        };
        self.slots[index as usize].ext = place;
    }

    /// Whether this node could not be evaluated on insertion.
    #[inline]
    pub(super) fn is_scheduled(&self, index: u32) -> bool {
        let ext = self.slot(index).ext;
        ext != NONE && self.exts[ext as usize].scheduled
    }

    /// Gives the pass a handle to this node.
    pub(super) fn add_root(&mut self, index: u32, handle: impl FnOnce(NodePtr) -> NodeRef) {
        let node = self.slots[index as usize].held();
        self.ext_or_new(index).root.get_or_insert_with(|| handle(node));
    }

    /// The slots of all root handles.
    pub(super) fn rooted(&self) -> impl Iterator<Item = u32> {
        self.indices().filter(|&index| self.ext(index).is_some_and(SlotExt::is_root))
    }

    /// Frees the slot of a root. Returns the last handle to its node.
    pub(super) fn remove(&mut self, index: u32) -> NodeRef {
        let handle = self.ext_mut(index).root.take().expect("it is a root");
        let slot = std::mem::replace(&mut self.slots[index as usize], NodeSlot::FREE);
        self.free_exts.push(slot.ext);
        self.free.push(index);
        handle
    }

    /// Adds a dependent of this incomplete operand.
    #[inline]
    pub(super) fn add_dependent(&mut self, operand: u32, consumer: u32) {
        self.ext_mut(operand).dependents.push(consumer);
        self.ext_mut(consumer).in_degree += 1;
    }

    /// A slot is completed: puts its dependents on the worklist.
    #[inline]
    pub(super) fn notify_later(&mut self, index: u32) {
        let ext = &mut self.exts[self.slots[index as usize].ext as usize];
        self.completed.extend(ext.dependents.drain(..).rev());
    }

    /// The next dependent on the worklist whose last input is completed.
    #[inline]
    pub(super) fn next_with_inputs(&mut self) -> Option<u32> {
        loop {
            let consumer = self.completed.pop()?;
            let ext = self.ext_mut(consumer);
            ext.in_degree -= 1;
            if ext.in_degree == 0 {
                return Some(consumer);
            }
        }
    }

    /// Sets whether the values of new nodes are released after their last use.
    pub(super) fn set_discards_new(&mut self, discards: bool) {
        self.discards_new = discards;
    }

    pub(super) fn discards_new(&self) -> bool {
        self.discards_new
    }
}

/// The state and the bits of a slot with this number.
#[inline(always)]
fn scalar_bits(scalar: Scalar) -> (SlotState, u64) {
    match scalar {
        Scalar::F32(number) => (SlotState::F32, number.to_bits().into()),
        Scalar::F64(number) => (SlotState::F64, number.to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_is_half_a_cache_line() {
        assert_eq!(size_of::<NodeSlot>(), 32);
    }
}
