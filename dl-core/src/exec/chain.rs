//! Task chains. A node that waits for exactly one incomplete input is appended to the chain of that
//! input, if the input is the last of its chain, instead of to the dependents of the input. A
//! worker takes a whole chain, so the intermediate values need no acquisition of the state lock.
//!
//! Chains affect scheduling only, never values. The results of a chain are stored within a bounded
//! time (see `kernel.rs`), so that other consumers are not delayed.

use crate::exec::dispatch::CHAIN_LENGTH;
use crate::exec::node_table::{NONE, Status};
use crate::exec::state::PassState;
use crate::graph::node::NodeOp;

/// The slot is in no chain and cannot start one: its job was taken, or its operation has an effect.
pub(super) const CLOSED: u32 = u32::MAX;
/// The slot can start a chain; it has no followers yet.
pub(super) const OPEN: u32 = u32::MAX - 1;

/// The maximum number of chain vectors that are kept for the next pass.
const KEPT: usize = 1 << 10;

/// The chains of a pass. Their vectors are reused.
#[derive(Default)]
pub(super) struct Chains {
    chains: Vec<Vec<u32>>,
    unused: Vec<u32>,
}

impl Chains {
    pub(super) fn reset(&mut self) {
        if self.chains.len() > KEPT {
            *self = Chains::default();
        }
        // All chains have been taken, unless the pass was cancelled.
        if self.unused.len() == self.chains.len() {
            return;
        }
        self.unused.clear();
        for (place, chain) in (0..).zip(&mut self.chains) {
            chain.clear();
            self.unused.push(place);
        }
    }

    /// Starts a chain of these slots.
    fn begin(&mut self, entries: &[u32]) -> u32 {
        let place = self.unused.pop().unwrap_or_else(|| {
            self.chains.push(Vec::new());
            (self.chains.len() - 1) as u32
        });
        self.chains[place as usize].extend_from_slice(entries);
        place
    }

    /// Appends a slot after `after`, which must be the last of the chain. Returns whether it did.
    fn append(&mut self, place: u32, after: u32, index: u32) -> bool {
        let chain = &mut self.chains[place as usize];
        let appends = chain.len() < CHAIN_LENGTH && chain.last() == Some(&after);
        if appends {
            chain.push(index);
        }
        appends
    }

    /// Takes all slots of a chain except the first.
    fn take(&mut self, place: u32, into: &mut Vec<u32>) {
        into.extend(self.chains[place as usize].drain(..).skip(1));
        self.unused.push(place);
    }
}

impl PassState {
    /// Appends a new operation to the chain of its only incomplete input, if that input is the last
    /// of its chain. Returns whether it did.
    pub(super) fn follows_in_chain(&mut self, index: u32, operands: usize) -> bool {
        let mut before = NONE;
        for which in 0..operands {
            let operand = self.operand(index, which);
            match self.status(operand) {
                Status::Pending if before == NONE || before == operand => before = operand,
                Status::Pending | Status::Failed(_) => return false,
                Status::Ready(_) | Status::Released => {}
            }
        }
        if before == NONE {
            return false;
        }
        let place = match self.nodes.ext_mut(before).chain {
            CLOSED => return false,
            OPEN => {
                let place = self.chains.begin(&[before]);
                self.nodes.ext_mut(before).chain = place;
                place
            }
            place => place,
        };
        if !self.chains.append(place, before, index) {
            return false;
        }
        self.nodes.ext_mut(index).chain = place;
        true
    }

    /// Takes the followers of an operation that has left the queue, in order.
    pub(super) fn take_chain(&mut self, first: u32, into: &mut Vec<u32>) {
        into.clear();
        match std::mem::replace(&mut self.nodes.ext_mut(first).chain, CLOSED) {
            CLOSED | OPEN => {}
            place => {
                self.chains.take(place, into);
                for &follower in &*into {
                    self.nodes.ext_mut(follower).chain = CLOSED;
                }
            }
        }
    }

    /// Whether this operation, the first of its chain, has followers.
    pub(super) fn has_followers(&self, first: u32) -> bool {
        self.nodes.ext(first).is_some_and(|ext| ext.chain < OPEN)
    }

    /// [`take_chain`](PassState::take_chain) for an operation without followers.
    pub(super) fn close_chain(&mut self, index: u32) {
        self.nodes.ext_mut(index).chain = CLOSED;
    }

    /// Turns the followers of an operation that is not run into ordinary dependents of their
    /// inputs.
    pub(super) fn part_chain(&mut self, followers: &[u32]) {
        for &index in followers {
            self.nodes.ext_mut(index).chain = OPEN;
            for which in 0..self.node(index).operands().len() {
                let operand = self.operand(index, which);
                if !self.is_completed(operand) {
                    self.nodes.add_dependent(operand, index);
                }
            }
        }
    }

    /// Requeues the rest of a chain, whose first operation is ready, at the end of the queue that
    /// the worker takes from.
    pub(super) fn put_back(&mut self, rest: &[u32], helps: bool) {
        let place = self.chains.begin(rest);
        for &index in rest {
            self.nodes.ext_mut(index).chain = place;
        }
        let queued = self.ready.len();
        self.on_inputs_ready(rest[0]);
        if !helps && self.ready.len() > queued {
            self.ready.bring_last_forward();
        }
        self.notify_dependents();
    }
}

/// Whether an operation can be in a chain: it must have no effect.
pub(super) fn can_follow(op: &NodeOp) -> bool {
    matches!(op, NodeOp::Primitive(op) if op.effect().is_none())
}
