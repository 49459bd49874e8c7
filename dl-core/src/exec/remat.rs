//! Checkpoint segments: when their activations are discarded, and how they are rematerialized.
//!
//! When a checkpoint boundary (a marked layer) is completed, so is everything that it depends on.
//! The values on which nothing else depends are discarded then; a value on which something else
//! depends is retained, as if it were a boundary itself. Between two retained layers, one above the
//! other, every consumer of a discarded value is discarded or is the upper one of the two. So a
//! group of the backward (see `autodiff/remat_group.rs`) finds all its residuals below it.
//!
//! A released slot becomes pending again when its value is requested, and so do the released slots
//! below it. A slot that was scheduled stays so: its uses are counted, and only consumers that are
//! rematerialized have pending uses again.

use crate::error::{Error, Result};
use crate::exec::node_table::{NONE, SlotState, Status};
use crate::exec::state::PassState;
use crate::exec::{Pass, vec_pool};
use crate::graph::identity::Effect;
use crate::graph::node::Expression;
use crate::parallel::sync::MutexGuard;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

/// Which values of a pass are retained.
#[derive(Default)]
pub(super) struct Retention {
    /// The slots of which it is known to which segment they belong, in a pass that keeps values.
    segmented: Vec<bool>,
    has_marks: bool,
    /// Whether a value was discarded that a backward may need.
    has_discarded: bool,
    /// Operations whose values are for a buffer, once a step commits.
    updates: Vec<u32>,
}

impl Retention {
    pub(super) fn reset(&mut self) {
        vec_pool::empty(&mut self.segmented);
        vec_pool::empty(&mut self.updates);
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

    /// The updates have been written.
    pub(super) fn clear_updates(&mut self) {
        self.updates.clear();
    }

    /// This slot is free.
    pub(super) fn remove(&mut self, index: u32) {
        if let Some(segmented) = self.segmented.get_mut(index as usize) {
            *segmented = false;
        }
    }
}

/// The uses of a slot, as far as a traversal has seen them.
struct Uses {
    /// The retained slot above all of them, if it is one.
    below: Option<u32>,
    operands: usize,
    followers: u32,
}

impl PassState {
    /// This slot is a checkpoint boundary, and ready. Its value is retained; those that it was
    /// computed from are discarded.
    pub(super) fn close_segment(&mut self, marked: u32) {
        self.retention.has_marks = true;
        self.nodes.ext_or_new(marked).marked = true;
        // the mark has this value, too: its size counts once
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

    /// The slots below this one that are in no segment yet, down to the next marks; operands before
    /// their consumers.
    fn open_below(&mut self, marked: u32) -> Vec<u32> {
        self.retention.segmented.resize(self.nodes.len(), false);
        let mut order = Vec::new();
        let mut walk = Vec::new();
        if !std::mem::replace(&mut self.retention.segmented[marked as usize], true) {
            walk.push((marked, 0));
        }
        while let Some((index, next)) = walk.last_mut() {
            if *next < self.edges_in_segment(*index) {
                let below = self.edge(*index, *next);
                *next += 1;
                if !std::mem::replace(&mut self.retention.segmented[below as usize], true) {
                    walk.push((below, 0));
                }
            } else {
                order.push(*index);
                walk.pop();
            }
        }
        order
    }

    /// How many slots this one was computed from: those of the operands, or that of the layer to
    /// which a dynamic node has resolved.
    pub(crate) fn edges(&self, index: u32) -> usize {
        let node = self.node(index);
        if node.is_dynamic() { usize::from(self.source(index) != NONE) } else { node.operands().len() }
    }

    pub(crate) fn edge(&self, index: u32, which: usize) -> u32 {
        if self.node(index).is_dynamic() { self.source(index) } else { self.operand(index, which) }
    }

    /// The same, but none for a mark: below it is another segment.
    fn edges_in_segment(&self, index: u32) -> usize {
        if self.node(index).is_mark() { 0 } else { self.edges(index) }
    }

    /// Whether nothing else depends on a slot, nor can any more.
    fn has_only(&self, index: u32, operands: usize, followers: u32) -> bool {
        let (rooted, aliases) = match self.nodes.ext(index) {
            Some(ext) => (usize::from(ext.is_root()), ext.aliases),
            None => (0, 0),
        };
        self.node(index).handles() <= rooted + operands && aliases == followers
    }

    /// Discards the value of this slot, unless only the body of a dynamic node could compute it
    /// again.
    fn discard(&mut self, index: u32) {
        let node = self.node(index);
        let again = match &node.expression {
            Expression::Primitive(_) => true,
            Expression::Dynamic(_) => self.source(index) != NONE,
            _ => false,
        };
        if again && self.nodes.is_scheduled(index) && self.entry(index).state == SlotState::Ready {
            self.retention.has_discarded = true;
            self.nodes.ext_mut(index).discards = true;
            self.release_if_unused(index);
        }
    }

    /// Discards all values that no cotangent needs. Where there are checkpoint boundaries, the
    /// values that are needed once more are known already.
    fn discard_residuals(&mut self) {
        if self.retention.has_marks {
            return;
        }
        // the commit needs the values that are written into buffers
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

    /// The slot that a mark marks, or this one. The cotangent of a mark is that of the slot that it
    /// marks.
    #[inline]
    pub(crate) fn unmarked(&self, mut index: u32) -> u32 {
        if self.retention.has_marks {
            while self.node(index).is_mark() {
                index = self.operand(index, 0);
            }
        }
        index
    }

    /// The numeric backward follows the operands in the slot: these must not be marks.
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

    /// Whether a segment ends here.
    pub(crate) fn is_marked(&self, index: u32) -> bool {
        self.nodes.ext(index).is_some_and(|ext| ext.marked)
    }

    /// Whether some value may be discarded that a backward is going to need.
    #[inline]
    pub(crate) fn has_forgotten(&self) -> bool {
        self.retention.has_discarded
    }

    /// Whether the pullback rule of this node cannot be called, because a residual is missing.
    pub(crate) fn has_missing_residuals(&self, index: u32) -> bool {
        let node = self.node(index);
        let is_there = |index| matches!(self.status(index), Status::Ready(_));
        matches!(&node.expression, Expression::Primitive(_))
            && !(is_there(index) && (0..node.operands().len()).all(|which| is_there(self.operand(index, which))))
    }

    pub(super) fn is_rematerialized(&self, index: u32) -> bool {
        self.nodes.ext(index).is_some_and(|ext| ext.again)
    }

    /// The value of this slot is requested. If it was released it is evaluated again, and so are
    /// the released operands that it takes.
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
        // operands were found last
        for &index in again.iter().rev().filter(|&&index| self.waits_for_none(index)).collect::<Vec<_>>() {
            let node = self.node(index);
            match &node.expression {
                Expression::Seed(position) => {
                    let seed = self.env.seed(*position, &node);
                    self.complete_quietly(index, seed);
                }
                Expression::Dynamic(_) if self.source(index) == NONE => self.queue_task(index),
                _ => self.on_inputs_ready(index),
            }
        }
        self.notify_dependents();
    }

    fn waits_for_none(&self, index: u32) -> bool {
        self.nodes.ext(index).is_some_and(|ext| ext.in_degree == 0)
    }
}

/// Retains values, which are rematerialized if they were released, until it is dropped.
pub(crate) struct Hold {
    pass: Weak<Pass>,
    slots: Vec<u32>,
    /// The first that may not be ready yet.
    next: usize,
}

impl Pass {
    /// The caller must keep the nodes of these slots alive.
    pub(crate) fn hold(self: &Arc<Self>, mut state: MutexGuard<'_, PassState>, mut slots: Vec<u32>) -> Hold {
        slots.retain(|&index| state.nodes.is_scheduled(index));
        for &index in &slots {
            state.nodes.ext_mut(index).pending_uses += 1;
        }
        for &index in &slots {
            state.rematerialize(index);
        }
        self.offer(state);
        Hold { pass: Arc::downgrade(self), slots, next: 0 }
    }

    /// From now on new layers are cotangents, to which no backward leads. In a pass that has
    /// discarded values, theirs are released when they have been used.
    pub(crate) fn forget_deltas(&self) {
        let mut state = self.state();
        let discards = state.retention.has_discarded;
        state.nodes.set_discards_new(discards);
    }

    /// The same when all cotangents of a step have been emitted: no rule is going to read a value
    /// any more, so each is released when the last operation has been run that needs it.
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

impl Hold {
    /// Waits until all values are ready.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<()>> {
        let Some(pass) = self.pass.upgrade() else { return Poll::Ready(Err(Error::cancelled())) };
        let mut state = pass.state();
        if state.workers.is_retired() {
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

    /// Releases the values, with the lock held already.
    pub(crate) fn let_go(mut self, pass: &Arc<Pass>, mut state: MutexGuard<'_, PassState>) {
        let slots = std::mem::take(&mut self.slots);
        if !state.workers.is_retired() {
            for index in slots {
                state.nodes.ext_mut(index).pending_uses -= 1;
                state.release_if_unused(index);
            }
        }
        pass.release(state);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.slots.is_empty()
            && let Some(pass) = self.pass.upgrade()
        {
            let slots = std::mem::take(&mut self.slots);
            Hold { pass: self.pass.clone(), slots, next: 0 }.let_go(&pass, pass.state());
        }
    }
}
