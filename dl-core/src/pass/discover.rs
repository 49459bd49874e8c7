//! Entering layers, and all that they need, into the books.
//!
//! A depth-first walk that never recurses makes an entry for each node, operands before their consumers. Nodes whose operands are
//! there already and which cost next to nothing (constants, weights, scalar arithmetic) are evaluated during that walk, so a
//! graph of scalars never sees the queue.
//!
//! A pass knows a node again by the claim on it (see `claim.rs`). A *lone* node, whose only handle is one operand of one consumer, needs none:
//! nobody can meet it another way. Its entry is known to its consumer, and it is claimed when somebody is given a handle to it.

use super::books::Books;
use super::entry::{Entry, NONE, Status};
use crate::node::{AnyLayer, Expression, Held, Node, Side};
use crate::rules::Binary;
use crate::rules::Unary;
use crate::value::{Repr, Value};

/// A node whose operands are being entered.
pub(super) struct Step {
    node: Held,
    /// The operand that is being entered.
    next: u32,
    /// The entry of the first operand, once it is known.
    first: u32,
    lone: bool,
}

/// Consumers of more operands than this find their entries by claims.
const KNOWN_OPERANDS: usize = 2;

impl Books {
    /// The entry of a node, if this pass has met it. For a lone node it is not known.
    #[inline]
    pub(crate) fn find(&self, node: &Node) -> Option<u32> {
        let index = node.claim().entry(&self.seat);
        if index.is_none() && !self.side.is_empty() {
            self.side.get(&std::ptr::from_ref(node).addr()).copied()
        } else {
            index
        }
    }

    /// The entry of an operand of this entry's node.
    #[inline]
    pub(crate) fn operand(&self, index: u32, which: usize) -> u32 {
        let entry = &self.entries[index as usize];
        match entry.operands.get(which) {
            Some(&operand) if operand != NONE => operand,
            _ => {
                let node = entry.held();
                self.find(&node.operands()[which]).expect("operands are entered before their consumer")
            }
        }
    }

    /// A handle to the node of an entry, to be given to somebody else, who may bring it back.
    pub(crate) fn handle(&mut self, index: u32) -> AnyLayer {
        self.claim_lone(index);
        self.node(index).handle()
    }

    /// Somebody is going to be given a handle to this node.
    pub(crate) fn claim_lone(&mut self, index: u32) {
        let node = self.node(index);
        if self.find(&node).is_none() {
            self.claim(node, index);
        }
    }

    fn claim(&mut self, node: Held, index: u32) {
        if !node.claim().claim(&self.seat, index) {
            self.side.insert(node.address(), index);
        }
    }

    /// The entry of a node; it and everything it needs are entered if they are not yet.
    pub(crate) fn discover(&mut self, root: &AnyLayer) -> u32 {
        if let Some(index) = self.find(root) {
            return index;
        }
        self.roots_met += 1;
        if self.live_entries() >= self.sweep_at {
            self.sweep();
        }
        // SAFETY: the root is kept alive by the caller, and then by a handle of the pass; what is below it, by it
        #[allow(unsafe_code, reason = "the pass holds the roots of all that it has entered")]
        let held = |layer: &AnyLayer| unsafe { Held::new(layer) };

        let mut walk = std::mem::take(&mut self.walk);
        let base = walk.len();
        let mut step = Step { node: held(root), next: 0, first: NONE, lone: false };
        let mut second = NONE;
        let index = 'entered: loop {
            let operands = step.node.operands();
            while let Some(operand) = operands.get(step.next as usize) {
                let lone = operands.len() <= KNOWN_OPERANDS && operand.is_lone();
                let known = if lone { None } else { self.find(operand) };
                let Some(known) = known else {
                    let below = Step { node: held(operand), next: 0, first: NONE, lone };
                    walk.push(std::mem::replace(&mut step, below));
                    second = NONE;
                    continue 'entered;
                };
                match step.next {
                    0 => step.first = known,
                    _ => second = known,
                }
                step.next += 1;
            }
            let known = operands.len() <= KNOWN_OPERANDS;
            let operands = if known { [step.first, second] } else { [NONE; 2] };
            let index = self.enter(step.node, step.lone, operands);
            if walk.len() == base {
                break index;
            }
            step = walk.pop().expect("the walk is longer than it was");
            match step.next {
                0 => (step.first, second) = (index, NONE),
                _ => second = index,
            }
            step.next += 1;
        };
        self.walk = walk;
        self.root(index);
        index
    }

    /// From now on the pass has a handle to this node.
    pub(super) fn root(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if !std::mem::replace(&mut entry.rooted, true) {
            let handle = entry.held().handle();
            self.links(index).root = self.roots.len() as u32;
            self.roots.push((handle, index));
        }
    }

    /// Makes the entry of a node whose operands are all entered.
    #[inline]
    fn enter(&mut self, node: Held, lone: bool, operands: [u32; 2]) -> u32 {
        self.counters.nodes += 1;
        let operand = |which: usize| &self.entries[operands[which] as usize];
        let pending = (Status::Pending, false);
        let (status, trained) = match &node.expression {
            Expression::Constant(value) => (Status::Done(value.clone()), false),
            Expression::Weight(variable) => {
                if let Some(index) = self.find_weight(variable.address(), variable.has_several_leaves()) {
                    self.claim(node, index);
                    return index;
                }
                let value = self.settings.read(variable);
                let index = self.vacant.last().copied().unwrap_or(self.entries.len() as u32);
                self.weights.push((variable.address(), index));
                (Status::Done(value), !variable.frozen())
            }
            Expression::Unary(op, _) => match operand(0) {
                Entry { status: Status::Done(x), trained, .. } => (Status::Done(unary(*op, x)), *trained),
                _ => pending,
            },
            Expression::WithNumber(op, side, number, _) => match operand(0) {
                Entry { status: Status::Done(x), trained, .. } => {
                    (Status::Done(with_number(*op, *side, *number, x)), *trained)
                }
                _ => pending,
            },
            Expression::Binary(op, _) => match (operand(0), operand(1)) {
                (
                    Entry { status: Status::Done(a), trained, .. },
                    Entry { status: Status::Done(b), trained: too, .. },
                ) => (Status::Done(binary(*op, a, b)), *trained | *too),
                _ => pending,
            },
            Expression::Primitive(_) | Expression::Dynamic(_) | Expression::Seed(_) => pending,
        };
        let scheduled = matches!(status, Status::Pending);
        let entry = Entry { node: Some(node), status, operands, links: NONE, trained, rooted: false, scheduled };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        if !lone {
            self.claim(node, index);
        }
        if scheduled {
            self.schedule(index);
        } else {
            self.counters.evaluations += usize::from(operands[0] != NONE);
        }
        index
    }
}

pub(super) fn unary(op: Unary, x: &Value) -> Value {
    match &x.0 {
        Repr::F32(x) => Value(Repr::F32(op.value(*x))),
        Repr::F64(x) => Value(Repr::F64(op.value(*x))),
        Repr::Any(_) => unreachable!("scalar arithmetic works on scalars"),
    }
}

#[inline]
pub(super) fn binary(op: Binary, a: &Value, b: &Value) -> Value {
    match (&a.0, &b.0) {
        (Repr::F32(a), Repr::F32(b)) => Value(Repr::F32(op.value(*a, *b))),
        (Repr::F64(a), Repr::F64(b)) => Value(Repr::F64(op.value(*a, *b))),
        _ => unreachable!("scalar arithmetic works on scalars of one type"),
    }
}

#[inline]
pub(super) fn with_number(op: Binary, side: Side, number: f64, x: &Value) -> Value {
    let number = match &x.0 {
        Repr::F32(_) => Value(Repr::F32(number as f32)),
        _ => Value(Repr::F64(number)),
    };
    match side {
        Side::Left => binary(op, &number, x),
        Side::Right => binary(op, x, &number),
    }
}
