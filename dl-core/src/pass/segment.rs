//! Segments between marks: when their values are forgotten, and how they come back.
//!
//! When a marked layer is done, so is all that it was computed from. What nothing but the marked
//! layer depends on is forgotten then. What something else depends on is kept, as if it were marked
//! itself. Between two kept layers, one above the other, every consumer of a forgotten value is
//! forgotten or is the upper one of the two. So a group of the walk back (see
//! `checkpoint/group.rs`) finds below it all that it needs.
//!
//! A forgotten entry that is wanted again becomes pending again, and with it those below it that
//! were forgotten. An entry that was scheduled stays so: its consumers have been met, and only
//! those that are evaluated again are unfinished again.

use super::Pass;
use super::books::Books;
use super::entry::{NONE, State, Status};
use crate::error::{Error, Result};
use crate::node::Expression;
use crate::sync::MutexGuard;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

/// What depends on an entry, as far as a walk has seen it.
struct Uses {
    /// The kept entry above all of that, if it is one.
    below: Option<u32>,
    operands: usize,
    followers: u32,
}

impl Books {
    /// The value of this entry is marked, and there. It is kept; what it was computed from is
    /// forgotten.
    pub(super) fn close_segment(&mut self, marked: u32) {
        self.has_marks = true;
        self.links(marked).marked = true;
        // from now on the mark has this value, too: it counts once
        self.forget_bytes(marked);
        let order = self.open_below(marked);
        let mut uses: HashMap<u32, Uses> = HashMap::with_capacity(order.len());
        for &index in order.iter().rev() {
            let above = match uses.remove(&index) {
                Some(Uses { below: Some(kept), operands, followers }) if self.has_only(index, operands, followers) => {
                    self.forget(index);
                    kept
                }
                _ => index,
            };
            let node = self.node(index);
            let new = match &node.expression {
                Expression::Primitive(op) => op.update().map(|update| update.new),
                _ => None,
            };
            for which in 0..self.edges_in_segment(index) {
                let below = self.edge(index, which);
                let uses = uses.entry(below).or_insert(Uses { below: Some(above), operands: 0, followers: 0 });
                if uses.below != Some(above) || new == Some(which) {
                    uses.below = None; // the commit, too, uses what is written into a buffer
                }
                match node.is_dynamic() {
                    true => uses.followers += 1,
                    false => uses.operands += 1,
                }
            }
        }
    }

    /// The entries below this one that are in no segment yet, down to the next marks; operands
    /// before their consumers.
    fn open_below(&mut self, marked: u32) -> Vec<u32> {
        self.closed.resize(self.entries.len(), false);
        let mut order = Vec::new();
        let mut walk = Vec::new();
        if !std::mem::replace(&mut self.closed[marked as usize], true) {
            walk.push((marked, 0));
        }
        while let Some((index, next)) = walk.last_mut() {
            if *next < self.edges_in_segment(*index) {
                let below = self.edge(*index, *next);
                *next += 1;
                if !std::mem::replace(&mut self.closed[below as usize], true) {
                    walk.push((below, 0));
                }
            } else {
                order.push(*index);
                walk.pop();
            }
        }
        order
    }

    /// How many entries this one was computed from: those of the operands, or that of the layer
    /// that a dynamic node turned out to be.
    pub(crate) fn edges(&self, index: u32) -> usize {
        let node = self.node(index);
        if node.is_dynamic() { usize::from(self.source(index) != NONE) } else { node.operands().len() }
    }

    pub(crate) fn edge(&self, index: u32, which: usize) -> u32 {
        if self.node(index).is_dynamic() { self.source(index) } else { self.operand(index, which) }
    }

    /// The same, but for a mark: what is below it is another segment.
    fn edges_in_segment(&self, index: u32) -> usize {
        if self.node(index).is_mark() { 0 } else { self.edges(index) }
    }

    /// Whether nothing else depends on an entry, nor can any more.
    fn has_only(&self, index: u32, operands: usize, followers: u32) -> bool {
        let entry = self.entry(index);
        let (rooted, followed) = match self.links.get(entry.links as usize) {
            Some(links) => (usize::from(links.root != NONE), links.followers),
            None => (0, 0),
        };
        entry.held().handles() <= rooted + operands && followed == followers
    }

    /// The value of this entry goes, unless only the body of a dynamic node could compute it again.
    fn forget(&mut self, index: u32) {
        let node = self.node(index);
        let again = match &node.expression {
            Expression::Primitive(_) => true,
            Expression::Dynamic(_) => self.source(index) != NONE,
            _ => false,
        };
        if again && self.is_scheduled(index) && self.entry(index).state == State::Done {
            self.forgot = true;
            self.linked(index).forgets = true;
            self.free(index);
        }
    }

    /// Whatever was evaluated for a backward goes that no delta needs. Where there are marks, what
    /// is needed once more is known already.
    fn forget_the_past(&mut self) {
        if self.has_marks {
            return;
        }
        // what is written into a buffer is needed by the commit
        let updated: HashSet<u32> = self.updates.iter().map(|&index| self.updated(index)).collect();
        for index in 0..self.entries.len() as u32 {
            if self.entry(index).state == State::Done && !updated.contains(&index) {
                self.forget(index);
            }
        }
    }

    /// The entry whose value this update writes into a buffer.
    fn updated(&self, update: u32) -> u32 {
        let node = self.node(update);
        let Expression::Primitive(op) = &node.expression else { unreachable!("an update is an operation") };
        self.operand(update, op.update().expect("it is an update").new)
    }

    /// The entry whose value a mark marks, or this one. What arrives at a mark arrives there: a
    /// mark is no place where something is summed.
    #[inline]
    pub(crate) fn unmarked(&self, mut index: u32) -> u32 {
        if self.has_marks {
            while self.node(index).is_mark() {
                index = self.operand(index, 0);
            }
        }
        index
    }

    /// The numeric reading of the way back goes by the operands in the entry.
    #[inline]
    pub(super) fn skip_marks(&mut self, index: u32) {
        if self.has_marks {
            self.skip_marks_of(index);
        }
    }

    #[cold]
    fn skip_marks_of(&mut self, index: u32) {
        for which in 0..self.edges(index) {
            let (mark, unmarked) = (self.operand(index, which), self.unmarked(self.operand(index, which)));
            if mark != unmarked {
                self.root(mark); // nobody else knows of it now
                self.entries[index as usize].operands[which] = unmarked;
            }
        }
    }

    /// Whether a segment ends here.
    pub(crate) fn is_marked(&self, index: u32) -> bool {
        self.links.get(self.entry(index).links as usize).is_some_and(|links| links.marked)
    }

    /// Whether some value may be gone that a backward is going to need.
    #[inline]
    pub(crate) fn has_forgotten(&self) -> bool {
        self.forgot
    }

    /// Whether the rule of this entry cannot be asked, because a value that it is to see is not
    /// there.
    pub(crate) fn is_hollow(&self, index: u32) -> bool {
        let node = self.node(index);
        let is_there = |index| matches!(self.status(index), Status::Done(_));
        matches!(&node.expression, Expression::Primitive(_))
            && !(is_there(index) && (0..node.operands().len()).all(|which| is_there(self.operand(index, which))))
    }

    pub(super) fn is_evaluated_again(&self, index: u32) -> bool {
        self.links.get(self.entry(index).links as usize).is_some_and(|links| links.again)
    }

    /// Somebody wants the value of this entry. If it was forgotten, it is going to be evaluated
    /// again, and so is what it takes.
    #[inline]
    pub(super) fn evaluate_again(&mut self, index: u32) {
        if self.entry(index).state == State::Freed {
            self.evaluate_all_again(index);
        }
    }

    #[cold]
    fn evaluate_all_again(&mut self, index: u32) {
        let mut again = vec![index];
        self.entries[index as usize].state = State::Pending;
        let mut next = 0;
        while let Some(&index) = again.get(next) {
            next += 1;
            for which in 0..self.edges(index) {
                let operand = self.edge(index, which);
                if self.entry(operand).state == State::Freed {
                    self.entries[operand as usize].state = State::Pending;
                    again.push(operand);
                }
            }
        }
        for &index in &again {
            self.forget_bytes(index);
            self.linked(index).again = true;
            for which in 0..self.edges(index) {
                let operand = self.edge(index, which);
                if self.is_scheduled(operand) || self.node(index).is_dynamic() {
                    self.linked(operand).unfinished += 1;
                }
                if !self.ended(operand) {
                    self.wait_for(operand, index);
                }
            }
        }
        // those below were met last
        for &index in again.iter().rev().filter(|&&index| self.waits_for_none(index)).collect::<Vec<_>>() {
            let node = self.node(index);
            match &node.expression {
                Expression::Seed(position) => {
                    let seed = self.seed(*position, &node);
                    self.end_and_tell(index, seed);
                }
                Expression::Dynamic(_) if self.source(index) == NONE => self.queue_task(index),
                _ => self.ready(index),
            }
        }
        self.settle();
    }

    fn waits_for_none(&self, index: u32) -> bool {
        self.links[self.entry(index).links as usize].pending == 0
    }
}

/// Keeps values, which are evaluated again if they were forgotten, until it is dropped.
pub(crate) struct Hold {
    pass: Weak<Pass>,
    entries: Vec<u32>,
    /// The first that may not be there yet.
    next: usize,
}

impl Pass {
    /// Whoever calls sees to it that the nodes of these entries stay alive.
    pub(crate) fn hold(self: &Arc<Self>, mut books: MutexGuard<'_, Books>, mut entries: Vec<u32>) -> Hold {
        entries.retain(|&index| books.is_scheduled(index));
        for &index in &entries {
            books.linked(index).unfinished += 1;
        }
        for &index in &entries {
            books.evaluate_again(index);
        }
        self.offer(books);
        Hold { pass: Arc::downgrade(self), entries, next: 0 }
    }

    /// From now on new layers are deltas that nobody is going to look back at. In a pass that
    /// forgets values, theirs go when they have been used.
    pub(crate) fn forget_deltas(&self) {
        let mut books = self.books();
        books.forgets = books.forgot;
    }

    /// The same when all deltas of a step have been written down, the last that the pass evaluates:
    /// no rule is going to look at a value any more, so each goes when the last operation has been
    /// run that needs it.
    pub(crate) fn forget_the_past(self: &Arc<Self>) {
        let mut books = self.books();
        books.forget_the_past();
        books.forgets = books.forgot;
        self.release(books);
    }

    pub(crate) fn forgets_deltas(&self) -> bool {
        self.books().forgets
    }
}

impl Hold {
    /// Waits until all values are there.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<()>> {
        let Some(pass) = self.pass.upgrade() else { return Poll::Ready(Err(Error::cancelled())) };
        let mut books = pass.books();
        if books.retired {
            return Poll::Ready(Err(Error::cancelled()));
        }
        while let Some(&index) = self.entries.get(self.next) {
            match books.status(index) {
                Status::Done(_) => self.next += 1,
                Status::Failed(error) => return Poll::Ready(Err(error.clone())),
                Status::Pending | Status::Freed => {
                    books.wake_when_done(index, cx.waker());
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Lets go of the values, under a lock that is held already.
    pub(crate) fn let_go(mut self, pass: &Arc<Pass>, mut books: MutexGuard<'_, Books>) {
        let entries = std::mem::take(&mut self.entries);
        if !books.retired {
            for index in entries {
                books.linked(index).unfinished -= 1;
                books.free(index);
            }
        }
        pass.release(books);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.entries.is_empty()
            && let Some(pass) = self.pass.upgrade()
        {
            let entries = std::mem::take(&mut self.entries);
            Hold { pass: self.pass.clone(), entries, next: 0 }.let_go(&pass, pass.books());
        }
    }
}
