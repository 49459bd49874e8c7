//! Checkpoint segments: when their activations are discarded, and how they are rematerialized.
//!
//! When a checkpoint boundary is completed, all its ancestors are completed. The values that only
//! other ancestors depend on are then discarded. A value that anything else depends on is retained,
//! as if it were a boundary itself. Between two retained layers, every consumer of a discarded
//! value is itself discarded, or is the upper one of the two. A rematerialization group of the
//! backward (`autodiff/remat_group.rs`) therefore finds all its residuals below it.
//!
//! A released slot becomes pending again when its value is requested, and so do the released slots
//! below it. The slot stays counted: its uses remain, and only consumers that are rematerialized
//! have pending uses again.

use crate::error::{Error, Result};
use crate::exec::Pass;
use crate::exec::node_table::{NONE, SlotState, Status};
use crate::exec::state::PassState;
use crate::graph::identity::Effect;
use crate::graph::node::NodeOp;
use crate::graph::postorder::postorder;
use dl_parallel::sync::MutexGuard;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

/// Which values of a pass are retained.
#[derive(Default)]
pub(super) struct Retention {
    /// The slots that have been assigned to a segment, in a pass that keeps residuals.
    segmented: Vec<bool>,
    has_marks: bool,
    /// Whether a value was discarded that a backward may need.
    has_discarded: bool,
    /// Operations that update a buffer when a step commits.
    updates: Vec<u32>,
}

impl Retention {
    pub(super) fn reset(&mut self) {
        self.segmented.clear();
        self.updates.clear();
        (self.has_marks, self.has_discarded) = (false, false);
    }

    pub(super) fn updates(&self) -> &[u32] {
        &self.updates
    }

    pub(super) fn has_updates(&self) -> bool {
        !self.updates.is_empty()
    }

    pub(super) fn add_update(&mut self, index: u32) {
        self.updates.push(index);
    }

    /// Called when the updates have been written.
    pub(super) fn clear_updates(&mut self) {
        self.updates.clear();
    }

    /// Called when this slot becomes free.
    pub(super) fn remove(&mut self, index: u32) {
        if let Some(segmented) = self.segmented.get_mut(index as usize) {
            *segmented = false;
        }
    }
}

/// The uses of a slot that a traversal has seen.
struct Uses {
    /// The retained slot above all uses, if it is the same for all.
    below: Option<u32>,
    operands: usize,
    followers: u32,
}

impl PassState {
    /// This slot is a checkpoint boundary and ready. Retains its value, and discards the values
    /// that it was computed from.
    pub(super) fn close_segment(&mut self, marked: u32) {
        self.retention.has_marks = true;
        self.nodes.ext_or_new(marked).marked = true;
        // The boundary has the same value, whose size must be counted once.
        self.forget_bytes(marked);
        let order = self.open_below(marked);
        let mut uses: HashMap<u32, Uses> = HashMap::with_capacity(order.len());
        for &index in order.iter().rev() {
            let above = match uses.remove(&index) {
                Some(Uses { below: Some(kept), operands, followers }) if self.has_only(index, operands, followers) => {
                    self.discard(index);
                    kept
                }
                _ => index,
            };
            let node = self.node(index);
            let new = (node.effect() == Some(Effect::Update)).then_some(Effect::NEW_VALUE);
            for which in 0..self.edges_in_segment(index) {
                let below = self.edge(index, which);
                let uses = uses.entry(below).or_insert(Uses { below: Some(above), operands: 0, followers: 0 });
                if uses.below != Some(above) || new == Some(which) {
                    uses.below = None; // the commit, too, uses a value that is written into a buffer
                }
                match node.is_dynamic() {
                    true => uses.followers += 1,
                    false => uses.operands += 1,
                }
            }
        }
    }

    /// The slots below this one that are in no segment yet, down to the next boundaries, operands
    /// before their consumers.
    fn open_below(&mut self, marked: u32) -> Vec<u32> {
        let mut segmented = std::mem::take(&mut self.retention.segmented);
        segmented.resize(self.nodes.len(), false);
        let below = |index: u32, which| (which < self.edges_in_segment(index)).then(|| self.edge(index, which));
        let enters = |_, index: u32| !std::mem::replace(&mut segmented[index as usize], true);
        let order = postorder([marked], below, enters);
        self.retention.segmented = segmented;
        order
    }

    /// The number of slots that this one was computed from: its operands, or the layer that a
    /// dynamic node has resolved to.
    pub(crate) fn edges(&self, index: u32) -> usize {
        let node = self.node(index);
        if node.is_dynamic() { usize::from(self.source(index) != NONE) } else { node.operands().len() }
    }

    pub(crate) fn edge(&self, index: u32, which: usize) -> u32 {
        if self.node(index).is_dynamic() { self.source(index) } else { self.operand(index, which) }
    }

    /// The same within a segment: zero for a boundary, below which another segment begins.
    fn edges_in_segment(&self, index: u32) -> usize {
        if self.node(index).is_checkpoint() { 0 } else { self.edges(index) }
    }

    /// Whether a slot has no other uses, and cannot get any.
    fn has_only(&self, index: u32, operands: usize, followers: u32) -> bool {
        let (rooted, aliases) = match self.nodes.ext(index) {
            Some(ext) => (usize::from(ext.is_root()), ext.aliases),
            None => (0, 0),
        };
        self.node(index).handles() <= rooted + operands && aliases == followers
    }

    /// Discards the value of this slot, unless only the body of a dynamic node could recompute it.
    fn discard(&mut self, index: u32) {
        let node = self.node(index);
        let again = match &node.op {
            NodeOp::Primitive(_) => true,
            NodeOp::Dynamic(_) => self.source(index) != NONE,
            _ => false,
        };
        if again && self.nodes.is_scheduled(index) && self.entry(index).state == SlotState::Ready {
            self.retention.has_discarded = true;
            self.nodes.ext_mut(index).discards = true;
            self.release_if_unused(index);
        }
    }

    /// Discards all values that no cotangent needs. If there are checkpoint boundaries, their
    /// segments already know which values are needed again.
    fn discard_residuals(&mut self) {
        if self.retention.has_marks {
            return;
        }
        // The commit needs the values that update buffers.
        let updated: HashSet<u32> = self.retention.updates.iter().map(|&index| self.updated(index)).collect();
        for index in self.nodes.indices() {
            if self.entry(index).state == SlotState::Ready && !updated.contains(&index) {
                self.discard(index);
            }
        }
    }

    /// The slot whose value this update writes into a buffer.
    fn updated(&self, update: u32) -> u32 {
        self.operand(update, Effect::NEW_VALUE)
    }

    /// The slot that a boundary marks, or this slot itself. The cotangent of a boundary is the
    /// cotangent of the slot that it marks.
    #[inline]
    pub(crate) fn unmarked(&self, mut index: u32) -> u32 {
        if self.retention.has_marks {
            while self.node(index).is_checkpoint() {
                index = self.operand(index, 0);
            }
        }
        index
    }

    /// The numeric backward reads operands from the slot, so these must not be boundaries.
    #[inline]
    pub(super) fn skip_marks(&mut self, index: u32) {
        if self.retention.has_marks {
            self.skip_marks_of(index);
        }
    }

    #[cold]
    fn skip_marks_of(&mut self, index: u32) {
        for which in 0..self.edges(index) {
            let (mark, unmarked) = (self.operand(index, which), self.unmarked(self.operand(index, which)));
            if mark != unmarked {
                self.root(mark); // no slot refers to it now
                self.nodes.slot_mut(index).operands[which] = unmarked;
            }
        }
    }

    /// Whether this slot is the end of a segment.
    pub(crate) fn is_marked(&self, index: u32) -> bool {
        self.nodes.ext(index).is_some_and(|ext| ext.marked)
    }

    /// Whether a value that a backward needs may be discarded.
    #[inline]
    pub(crate) fn has_forgotten(&self) -> bool {
        self.retention.has_discarded
    }

    /// Whether the pullback rule of this node cannot be called because a residual is missing.
    pub(crate) fn has_missing_residuals(&self, index: u32) -> bool {
        let node = self.node(index);
        let is_there = |index| matches!(self.status(index), Status::Ready(_));
        matches!(&node.op, NodeOp::Primitive(_))
            && !(is_there(index) && (0..node.operands().len()).all(|which| is_there(self.operand(index, which))))
    }

    pub(super) fn is_rematerialized(&self, index: u32) -> bool {
        self.nodes.ext(index).is_some_and(|ext| ext.again)
    }

    /// Makes the value of this slot available. If it was released, it is evaluated again, and so
    /// are the released operands that it depends on.
    #[inline]
    pub(super) fn rematerialize(&mut self, index: u32) {
        if self.entry(index).state == SlotState::Released {
            self.rematerialize_all(index);
        }
    }

    #[cold]
    fn rematerialize_all(&mut self, index: u32) {
        let mut again = vec![index];
        self.nodes.slot_mut(index).state = SlotState::Pending;
        let mut next = 0;
        while let Some(&index) = again.get(next) {
            next += 1;
            for which in 0..self.edges(index) {
                let operand = self.edge(index, which);
                if self.entry(operand).state == SlotState::Released {
                    self.nodes.slot_mut(operand).state = SlotState::Pending;
                    again.push(operand);
                }
            }
        }
        for &index in &again {
            self.forget_bytes(index);
            self.nodes.ext_mut(index).again = true;
            for which in 0..self.edges(index) {
                let operand = self.edge(index, which);
                if self.nodes.is_scheduled(operand) || self.node(index).is_dynamic() {
                    self.nodes.ext_mut(operand).pending_uses += 1;
                }
                if !self.is_completed(operand) {
                    self.nodes.add_dependent(operand, index);
                }
            }
        }
        // The traversal found operands after their consumers.
        for &index in again.iter().rev().filter(|&&index| self.waits_for_none(index)).collect::<Vec<_>>() {
            let node = self.node(index);
            match &node.op {
                NodeOp::Seed(position) => {
                    let seed = self.env.seed(*position, &node);
                    self.complete_quietly(index, seed);
                }
                NodeOp::Dynamic(_) if self.source(index) == NONE => self.queue_task(index),
                _ => self.on_inputs_ready(index),
            }
        }
        self.notify_dependents();
    }

    fn waits_for_none(&self, index: u32) -> bool {
        self.nodes.ext(index).is_some_and(|ext| ext.in_degree == 0)
    }
}

/// A guard that retains values. Values that were released are rematerialized.
pub(crate) struct RetainGuard {
    pass: Weak<Pass>,
    slots: Vec<u32>,
    /// The first value that may not be ready yet.
    next: usize,
}

impl Pass {
    /// The caller must keep the nodes of these slots alive.
    pub(crate) fn hold(self: &Arc<Self>, mut state: MutexGuard<'_, PassState>, mut slots: Vec<u32>) -> RetainGuard {
        slots.retain(|&index| state.nodes.is_scheduled(index));
        for &index in &slots {
            state.nodes.ext_mut(index).pending_uses += 1;
        }
        for &index in &slots {
            state.rematerialize(index);
        }
        self.offer(state);
        RetainGuard { pass: Arc::downgrade(self), slots, next: 0 }
    }

    /// New layers are cotangents from now on, and no backward reads their values. In a pass that
    /// has discarded values they are released after their last use.
    pub(crate) fn forget_deltas(&self) {
        let mut state = self.state();
        let discards = state.retention.has_discarded;
        state.nodes.set_discards_new(discards);
    }

    /// All cotangents of a step have been emitted, so no rule reads a value any more. Each value is
    /// released after its last use.
    pub(crate) fn forget_the_past(self: &Arc<Self>) {
        let mut state = self.state();
        state.discard_residuals();
        let discards = state.retention.has_discarded;
        state.nodes.set_discards_new(discards);
        self.release(state);
    }

    pub(crate) fn forgets_deltas(&self) -> bool {
        self.state().nodes.discards_new()
    }
}

impl RetainGuard {
    /// Polls until all values are ready.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<()>> {
        let Some(pass) = self.pass.upgrade() else { return Poll::Ready(Err(Error::cancelled())) };
        let mut state = pass.state();
        if state.workers.retired {
            return Poll::Ready(Err(Error::cancelled()));
        }
        while let Some(&index) = self.slots.get(self.next) {
            match state.status(index) {
                Status::Ready(_) => self.next += 1,
                Status::Failed(error) => return Poll::Ready(Err(error.clone())),
                Status::Pending | Status::Released => {
                    state.wake_when_done(index, cx.waker());
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Releases the values. The caller holds the state lock.
    pub(crate) fn let_go(mut self, pass: &Arc<Pass>, mut state: MutexGuard<'_, PassState>) {
        let slots = std::mem::take(&mut self.slots);
        if !state.workers.retired {
            for index in slots {
                state.nodes.ext_mut(index).pending_uses -= 1;
                state.release_if_unused(index);
            }
        }
        pass.release(state);
    }
}

impl Drop for RetainGuard {
    fn drop(&mut self) {
        if !self.slots.is_empty()
            && let Some(pass) = self.pass.upgrade()
        {
            let slots = std::mem::take(&mut self.slots);
            RetainGuard { pass: self.pass.clone(), slots, next: 0 }.let_go(&pass, pass.state());
        }
    }
}
