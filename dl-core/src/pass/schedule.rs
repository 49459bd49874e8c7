//! When an entry is evaluated: it waits for its operands, is queued when the last of them has
//! ended, and tells its consumers when it has ended itself.
//!
//! A failed operand counts as done: its consumer fails when *all* its operands have ended, with the
//! error of the leftmost one that failed. So the error that is reported does not depend on time.

use super::Keep;
use super::at_once::SMALL_OF_OURS_NANOSECONDS;
use super::books::Books;
use super::chain::{OPEN, can_follow};
use super::entry::{NONE, Scalar, Seen, State, Status, Waiting};
use super::queue::Work;
use super::tables;
use crate::error::{Error, Result};
use crate::node::{Expression, Node};
use crate::primitive::AnyPrimitive;
use crate::value::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Books {
    /// Finds out when a new entry, which could not be evaluated at once, can be.
    pub(super) fn schedule(&mut self, index: u32) {
        let node = self.node(index);
        self.add_links(index);
        self.linked(index).scheduled = true;
        match &node.expression {
            Expression::Dynamic(recipe) => {
                self.in_order = false;
                self.note_position(recipe.position());
                self.queue_task(index);
            }
            Expression::Seed(position) => {
                self.note_position(*position);
                let seed = self.seed(*position, &node);
                self.finish(index, seed);
            }
            _ if node.is_arithmetic() => {
                for operand in self.entry(index).operands.into_iter().filter(|&operand| operand != NONE) {
                    self.evaluate_again(operand);
                    if !self.ended(operand) {
                        self.wait_for(operand, index);
                    }
                }
                if self.linked(index).pending == 0 {
                    self.ready(index); // an operand has failed
                    self.settle();
                }
            }
            expression => {
                let operands = node.operands().len();
                for which in 0..operands {
                    let operand = self.operand(index, which);
                    self.evaluate_again(operand);
                    self.meet_consumer(operand);
                }
                if can_follow(expression) {
                    if self.follows_in_chain(index, operands) {
                        return;
                    }
                    self.linked(index).chain = OPEN;
                }
                for which in 0..operands {
                    let operand = self.operand(index, which);
                    if !self.ended(operand) {
                        self.wait_for(operand, index);
                    }
                }
                if self.linked(index).pending == 0 {
                    self.ready(index);
                    self.settle();
                }
            }
        }
    }

    /// An entry has one consumer more, which is no arithmetic: the value may have to be let go some
    /// time.
    #[inline]
    pub(super) fn meet_consumer(&mut self, index: u32) {
        if self.is_scheduled(index) {
            let links = self.linked(index);
            links.consumers += 1;
            links.unfinished += 1;
        }
    }

    /// This entry has ended: its operands have one consumer less that is not done.
    #[inline]
    pub(super) fn part_from_operands(&mut self, index: u32, node: &Node) {
        if node.is_arithmetic() {
            return;
        }
        for which in 0..node.operands().len() {
            let operand = self.operand(index, which);
            if self.is_scheduled(operand) {
                self.linked(operand).unfinished -= 1;
                self.free(operand);
            }
        }
    }

    /// How long the kernel of this entry takes, whose operands are there, or the panic of whoever
    /// was asked.
    pub(super) fn cost(&self, index: u32, op: &dyn AnyPrimitive) -> std::thread::Result<f64> {
        let cost = |operands: &[&Value]| catch_unwind(AssertUnwindSafe(|| op.cost(operands)));
        self.with_operands(index, op.operands().len(), cost)
    }

    /// Looks at the values of the operands of this entry, which are there.
    pub(crate) fn with_operands<R>(&self, index: u32, count: usize, look: impl FnOnce(&[&Value]) -> R) -> R {
        let value = |which| self.value(self.operand(index, which));
        match count {
            0 => look(&[]),
            1 => look(&[value(0).as_value()]),
            2 => look(&[value(0).as_value(), value(1).as_value()]),
            3 => look(&[value(0).as_value(), value(1).as_value(), value(2).as_value()]),
            n => {
                let values: Vec<Seen<'_>> = (0..n).map(value).collect();
                look(&values.iter().map(Seen::as_value).collect::<Vec<_>>())
            }
        }
    }

    /// All operands of this entry have ended: evaluate it now, or queue it.
    pub(super) fn ready(&mut self, index: u32) {
        let node = self.node(index);
        if let Expression::Dynamic(_) = &node.expression {
            let source = self.source(index);
            self.entries[index as usize].trained = self.trained(source);
            self.linked(source).unfinished -= 1;
            if let Some(number) = self.entry(source).number() {
                return self.end_with_number(index, number);
            }
            let result = self.outcome(source).expect("what it turned out to be has ended");
            self.end_and_tell(index, result);
            if self.entry(source).state == State::Done {
                self.free(source);
            }
            return;
        }
        if let Some((number, trained, arithmetic)) = self.arithmetic_of(index) {
            self.skip_marks(index);
            let entry = &mut self.entries[index as usize];
            (entry.trained, entry.arithmetic) = (trained, arithmetic);
            return self.end_with_number(index, number);
        }
        let operands = node.operands().len();
        let mut trained = false;
        let mut failed: Option<Error> = None;
        for which in 0..operands {
            let operand = self.operand(index, which);
            trained |= self.trained(operand);
            if let Status::Failed(error) = self.status(operand) {
                failed = Some(error.beside(failed));
            }
        }
        if let Some(error) = failed {
            self.is_not_run(index, error);
            return;
        }
        self.entries[index as usize].trained = trained;
        match &node.expression {
            Expression::Primitive(op) => match self.cost(index, &**op) {
                Ok(nanoseconds) if self.keep == Keep::Values && stays(&**op, nanoseconds) => {
                    self.queue.push_to_stay(index, nanoseconds);
                }
                Ok(nanoseconds) => self.queue.push(Work::Kernel(index), nanoseconds),
                Err(payload) => {
                    self.is_not_run(index, Error::panic(payload).at(op.name_or_panic(), node.site()));
                }
            },
            _ => unreachable!("the other kinds have no operands, or are evaluated"),
        }
    }

    /// An operation fails before it is run.
    #[cold]
    fn is_not_run(&mut self, index: u32, error: Error) {
        let mut followers = Vec::new();
        self.take_chain(index, &mut followers);
        self.part_chain(&followers); // they are told with all others who wait for it
        self.end_and_tell(index, Err(error));
    }

    #[inline]
    pub(super) fn wait_for(&mut self, operand: u32, consumer: u32) {
        let place = match self.unused_waiting {
            NONE => self.waiting.len() as u32,
            unused => unused,
        };
        let next = std::mem::replace(&mut self.linked(operand).waiting, place);
        let waiting = Waiting { consumer, next };
        match self.waiting.get_mut(place as usize) {
            Some(unused) => self.unused_waiting = std::mem::replace(unused, waiting).next,
            None => tables::push(&mut self.waiting, waiting),
        }
        self.linked(consumer).pending += 1;
    }

    /// Writes down how an entry ended, and what follows from that.
    pub(super) fn finish(&mut self, index: u32, result: Result<Value>) {
        let waiting = self.end(index, result);
        self.tell_those(waiting);
        self.settle();
    }

    /// Tells all who are to be told.
    pub(super) fn settle(&mut self) {
        while let Some(waiting) = self.to_tell.pop() {
            self.tell_those(waiting);
        }
    }

    /// Writes down how an entry ended. Those who wait for it are told when all is
    /// [settled](Books::settle).
    pub(super) fn end_and_tell(&mut self, index: u32, result: Result<Value>) {
        let waiting = self.end(index, result);
        self.tell_later(waiting);
    }

    /// The same for scalar arithmetic, or a decision, which ended with a number.
    #[inline]
    fn end_with_number(&mut self, index: u32, number: Scalar) {
        self.count.so_far.evaluations += 1;
        let entry = &mut self.entries[index as usize];
        entry.set_number(number);
        let links = &mut self.links[entry.links as usize];
        let waiting = std::mem::replace(&mut links.waiting, NONE);
        if std::mem::take(&mut links.awaited) {
            self.wake_those(index);
        }
        self.tell_later(waiting);
    }

    #[inline]
    fn tell_later(&mut self, waiting: u32) {
        if waiting != NONE {
            self.to_tell.push(waiting);
        }
    }

    /// Somebody is to be woken now that this entry has ended.
    #[cold]
    fn wake_those(&mut self, index: u32) {
        self.woken.extend(self.wakers.remove(&index).into_iter().flatten());
    }

    /// Writes down how an entry ended, which needs its operands no more. Says who waits for it, and
    /// is to be told.
    pub(super) fn end(&mut self, index: u32, result: Result<Value>) -> u32 {
        let node = self.node(index);
        self.count.so_far.evaluations += 1;
        let waiting = self.write_down(index, &node, result);
        if std::mem::take(&mut self.linked(index).awaited) {
            self.wake_those(index);
        }
        self.part_from_operands(index, &node);
        waiting
    }

    /// Tells those who wait, of whom this is the first, that an operand has ended.
    pub(super) fn tell_those(&mut self, mut waiting: u32) {
        while waiting != NONE {
            let slot = &mut self.waiting[waiting as usize];
            let consumer = slot.consumer;
            let after = std::mem::replace(&mut slot.next, self.unused_waiting);
            self.unused_waiting = waiting;
            waiting = after;
            let links = self.linked(consumer);
            links.pending -= 1;
            if links.pending == 0 {
                self.ready(consumer);
            }
        }
    }
}

/// What is written down about an operation takes about as long.
const BOOKING_NANOSECONDS: f64 = 100.0;

/// Whether an operation that takes so long had better be computed by the thread that is going to
/// walk back over it, where nobody else has it in his caches.
pub(super) fn stays(op: &dyn AnyPrimitive, nanoseconds: f64) -> bool {
    // whoever takes it from the queue takes each operand, and parts from it
    let booking = 2.0 * BOOKING_NANOSECONDS * op.operands().len() as f64;
    op.is_plain() && nanoseconds < SMALL_OF_OURS_NANOSECONDS + booking
}
