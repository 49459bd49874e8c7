//! Discovery: inserts a node and everything that it depends on into the node table.
//!
//! An iterative depth-first traversal makes a slot for each node, operands before their consumers.
//! A node with ready operands and a negligible cost (a constant, a weight, scalar arithmetic) is
//! evaluated on insertion, so a graph of scalars uses no queue. A small operation of the library
//! runs inline (see `inline.rs`). The first traversal of a pass begins while the pass has one
//! handle, and stops at the first node that needs more than the node table (see
//! `exclusive_pass.rs`).
//!
//! The pass recognises a node by its stamp (see `graph/owner_stamp.rs`). Stamping takes an atomic
//! read-modify-write, so nodes that need no stamp have none. A *uniquely referenced* node, whose
//! only handle is one operand of one consumer, can be reached in one way only: its consumer knows
//! its slot. It is stamped when another handle to it is made. A consumer with more than two
//! operands looks its operands up, so these are stamped on insertion.
//!
//! A traversal holds the state lock to its end, so no other traversal inserts a node meanwhile.

use crate::exec::dispatch::INLINE_WHILE_AWAITED;
use crate::exec::node_table::{Arithmetic, NONE, NodeSlot, SlotState, Status};
use crate::exec::state::PassState;
use crate::exec::{Keep, Pass, vec_pool};
use crate::graph::identity::Effect;
use crate::graph::node::{Node, NodeOp};
use crate::graph::node_ref::{NodePtr, NodeRef};
use crate::graph::scalar::{Scalar, inline_if_basic, out_of_line};
use crate::graph::value::Value;
use crate::graph::variable::VariableRef;
use dl_math::{Binary, Number, Side, Unary};
use dl_parallel::sync::Ordering;

/// The minimum number of slots in use for a sweep.
const SWEEP_AT_LEAST: usize = if cfg!(shuttle) { 4 } else { 64 };

/// The traversals of a pass.
pub(super) struct Discovery {
    /// The number of traversals so far, each from a new root.
    roots: usize,
    /// Whether operands have smaller slot numbers than their consumers. False once a dynamic node
    /// was inserted.
    in_order: bool,
    /// The nodes that stand for others, with as many handles as those had.
    stand_ins: Vec<NodeRef>,
    /// The stack of the previous traversal, for reuse.
    spare_stack: Vec<Frame>,
    /// The number of slots in use at which the next sweep pays off.
    sweep_at: usize,
}

impl Default for Discovery {
    fn default() -> Self {
        let spare_stack = Vec::new();
        Discovery { roots: 0, in_order: true, stand_ins: Vec::new(), spare_stack, sweep_at: SWEEP_AT_LEAST }
    }
}

impl Discovery {
    pub(super) fn reset(&mut self) {
        vec_pool::clear(&mut self.spare_stack);
        self.stand_ins = Vec::new();
        (self.roots, self.in_order, self.sweep_at) = (0, true, SWEEP_AT_LEAST);
    }

    /// The number of traversals so far.
    pub(super) fn roots(&self) -> usize {
        self.roots
    }

    /// The next traversal is the first one.
    pub(super) fn begins(&mut self) {
        self.roots = 1;
    }

    /// Operands may have larger slot numbers than their consumers from now on.
    pub(super) fn lose_order(&mut self) {
        self.in_order = false;
    }

    /// Schedules the next sweep for when this many slots are in use.
    pub(super) fn sweep_when(&mut self, slots: usize) {
        self.sweep_at = slots.max(SWEEP_AT_LEAST);
    }
}

/// A frame of the traversal's stack: a node whose operands are being inserted.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    node: NodePtr,
    /// The slot of the first operand, or `NONE` until it is known. For a node with more than two
    /// operands, whose slots are looked up, this is the number of inserted operands.
    first: u32,
}

/// A depth-first traversal.
pub(super) struct Traversal {
    /// The consumers of the current node, from the root on.
    stack: Vec<Frame>,
    /// The current node.
    at: Frame,
    /// The slot of the operand that was inserted last, unless it is the first.
    second: u32,
    inline: InlinePolicy,
    /// The inline policy for the root.
    inline_root: InlinePolicy,
    /// The number of nodes, scalar arithmetic excluded, that were inserted while another thread
    /// waited for the lock.
    awaited: usize,
}

/// Whether a traversal runs the kernels of new nodes inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InlinePolicy {
    /// No: all kernels are queued.
    Queue,
    /// Those of small operations.
    Small,
    /// Those of small operations, and an expensive one if no job is queued: nothing follows it.
    Last,
}

/// The operands of a node, as far as they are inserted.
enum Operands {
    /// All are inserted. These are their slots, if there are at most two.
    Known(u32, u32),
    /// The first operand that is not inserted, and the `first` of its consumer's [`Frame`].
    Missing(NodePtr, u32),
}

#[allow(unsafe_code, reason = "the pass holds the roots of all that it has entered")]
fn held(layer: &NodeRef) -> NodePtr {
    // SAFETY: the caller keeps the root alive during the traversal, and a root handle of the pass
    // keeps it alive afterwards. The root keeps its operands alive. A traversal does not unwind.
    unsafe { NodePtr::new(layer) }
}

impl Traversal {
    /// Called after a node other than scalar arithmetic. If another thread has waited for the lock
    /// for some time, all further kernels are queued: the rest of the traversal takes little time.
    #[inline]
    fn hurry(&mut self, pass: &Pass) {
        if pass.lock_waiters.load(Ordering::Relaxed) > 0 {
            self.awaited += 1;
            if self.awaited >= INLINE_WHILE_AWAITED {
                (self.inline, self.inline_root) = (InlinePolicy::Queue, InlinePolicy::Queue);
            }
        }
    }
}

impl Pass {
    /// The value of a weight in this pass, if the pass has read it.
    fn value_of_weight(&self, node: NodePtr) -> Option<Value> {
        let mut state = self.state();
        let index = state.find_any_replica(&node)?;
        match state.status(index) {
            Status::Ready(value) => Some(value.to_value()),
            _ => None,
        }
    }
}

impl PassState {
    /// Whether the slots are numbered in the order of a depth-first traversal from the only root,
    /// operands before their consumers.
    pub(crate) fn in_order(&self) -> bool {
        self.discovery.in_order && self.discovery.roots == 1
    }

    /// The slot of a node in this pass. A node without a stamp is not found.
    #[inline]
    pub(crate) fn find(&self, node: &Node) -> Option<u32> {
        self.index.find(node)
    }

    /// The slot of an operand of this node.
    #[inline]
    pub(crate) fn operand(&self, index: u32, which: usize) -> u32 {
        let known = self.entry(index).operand(which);
        if known == NONE { self.operand_by_stamp(index, which) } else { known }
    }

    #[cold]
    fn operand_by_stamp(&self, index: u32, which: usize) -> u32 {
        let node = self.node(index);
        self.find(&node.operands()[which]).expect("operands are entered before their consumer")
    }

    /// A new handle to a node. The node is stamped, because the handle may be used in this pass.
    pub(crate) fn handle(&mut self, index: u32) -> NodeRef {
        self.stamp_unique(index);
        self.node(index).handle()
    }

    /// Stamps a node before another handle to it is made.
    pub(crate) fn stamp_unique(&mut self, index: u32) {
        let node = self.node(index);
        if self.find(&node).is_none() {
            self.claim(node, index);
        }
    }

    fn claim(&mut self, node: NodePtr, index: u32) {
        self.index.stamp(&node, index);
    }

    /// Begins a traversal from a new root. The caller must give the pass a handle to it afterwards.
    #[inline]
    pub(super) fn begin_traversal(&mut self, root: &NodeRef, inline: InlinePolicy) -> Traversal {
        self.note_root();
        let at = Frame { node: held(root), first: NONE };
        let stack = std::mem::take(&mut self.discovery.spare_stack);
        Traversal { stack, at, second: NONE, inline, inline_root: inline, awaited: 0 }
    }

    /// Begins a traversal from the first root. Nothing follows this root, so its kernel runs inline
    /// even if it is expensive, provided that nothing else is queued.
    #[inline]
    pub(super) fn begin_first_traversal(&mut self, root: &NodeRef, watched: bool) -> Traversal {
        let (inline, inline_root) = if watched {
            (InlinePolicy::Queue, InlinePolicy::Queue)
        } else {
            (InlinePolicy::Small, InlinePolicy::Last)
        };
        Traversal { inline_root, ..self.begin_traversal(root, inline) }
    }

    #[inline]
    fn note_root(&mut self) {
        self.discovery.roots += 1;
        if self.nodes.live() >= self.discovery.sweep_at {
            self.sweep();
        }
    }

    /// Inserts a dynamic node, which has no operands. The pass must have a handle to it.
    pub(super) fn insert_dynamic(&mut self, root: &NodeRef) -> u32 {
        self.note_root();
        self.insert_other(held(root), [NONE; 2], false, InlinePolicy::Queue)
    }

    /// Inserts the operands of the current node, then the node, and so on. Returns the slot of the
    /// root. `pass` is `None` while the pass has one handle only; the traversal then stops at the
    /// first node that needs the pass, because it is no constant, weight or scalar arithmetic.
    pub(super) fn traverse(&mut self, traversal: &mut Traversal, pass: Option<&Pass>) -> Option<u32> {
        let mut stack = std::mem::take(&mut traversal.stack);
        let Frame { mut node, mut first } = traversal.at;
        let mut second = traversal.second;
        loop {
            let operands = match self.operands(node, first, second) {
                Operands::Known(left, right) => [left, right],
                Operands::Missing(operand, first_known) => {
                    vec_pool::push(&mut stack, Frame { node, first: first_known });
                    (node, first, second) = (operand, NONE, NONE);
                    continue;
                }
            };
            let consumer = stack.pop();
            if let Some(next) = stack.last() {
                next.node.prefetch();
            }
            let is_root = consumer.is_none();
            let lone = || !is_root && node.is_unique();
            let index = match self.insert_arithmetic(node, operands, lone) {
                Some(index) => index,
                None if pass.is_none() && !node.op.is_leaf() => {
                    stack.extend(consumer);
                    // A node with many operands looks them up again.
                    if operands != [NONE; 2] {
                        [first, second] = operands;
                    }
                    (traversal.at, traversal.second) = (Frame { node, first }, second);
                    traversal.stack = stack;
                    return None;
                }
                None => {
                    let inline = if is_root { traversal.inline_root } else { traversal.inline };
                    let index = self.insert_other(node, operands, lone(), inline);
                    pass.inspect(|pass| traversal.hurry(pass));
                    index
                }
            };
            let Some(consumer) = consumer else {
                self.discovery.spare_stack = stack;
                return Some(index);
            };
            node = consumer.node;
            [first, second] = if consumer.first == NONE { [index, NONE] } else { [consumer.first, index] };
        }
    }

    /// The slot of `in_place` is that of `node`, too, which must live as long. The new node gets as
    /// many handles as there are to the other one, so that its value is released when nothing can
    /// request it under either name, and not before.
    pub(super) fn stand_in(&mut self, node: &NodeRef, in_place: NodeRef, index: u32) {
        // The caller and `in_place` have two of them.
        let others = node.handles().saturating_sub(2).max(1);
        self.index.stamp(node, index);
        self.discovery.stand_ins.extend(std::iter::repeat_n(in_place, others));
    }

    /// Gives the pass a handle to this node.
    pub(super) fn root(&mut self, index: u32) {
        self.nodes.add_root(index, NodePtr::handle);
    }

    /// The slots of a node's operands, or the first operand that is not inserted. `first` and
    /// `second` are the slots of operands that were inserted before; for a node with many operands,
    /// the number of inserted operands, and the slot of the last.
    #[inline(always)]
    fn operands(&mut self, node: NodePtr, first: u32, second: u32) -> Operands {
        match &node.op {
            NodeOp::Binary(_, [a, b]) => self.two(a, b, first, second),
            NodeOp::Unary(_, [x]) | NodeOp::WithNumber(_, _, _, [x]) => self.one(x, first),
            NodeOp::Primitive(op) => match op.operands() {
                [] => Operands::Known(NONE, NONE),
                [x] => self.one(x, first),
                [a, b] => self.two(a, b, first, second),
                operands => self.many(operands, first, second),
            },
            _ => Operands::Known(NONE, NONE),
        }
    }

    #[inline(always)]
    fn one(&mut self, x: &NodeRef, first: u32) -> Operands {
        match self.known(x, first) {
            Some(first) => Operands::Known(first, NONE),
            None => Operands::Missing(held(x), NONE),
        }
    }

    #[inline(always)]
    fn two(&mut self, a: &NodeRef, b: &NodeRef, first: u32, second: u32) -> Operands {
        let Some(first) = self.known(a, first) else {
            // It is inserted after the first operand and everything below that.
            held(b).prefetch();
            return Operands::Missing(held(a), NONE);
        };
        match self.known(b, second) {
            Some(second) => Operands::Known(first, second),
            None => {
                // The second branch of a tree: its nodes are inserted in the order in which they
                // were built.
                held(b).prefetch_later();
                Operands::Missing(held(b), first)
            }
        }
    }

    /// Not inlined: most nodes have one operand or two.
    #[inline(never)]
    fn many(&mut self, operands: &[NodeRef], entered: u32, last: u32) -> Operands {
        let entered = if entered == NONE { 0 } else { entered as usize };
        if last != NONE && self.find(&operands[entered]).is_none() {
            self.claim(held(&operands[entered]), last); // uniquely referenced, but looked up
        }
        let missing = (entered..operands.len()).find(|&which| self.find(&operands[which]).is_none());
        missing.map_or(Operands::Known(NONE, NONE), |which| Operands::Missing(held(&operands[which]), which as u32))
    }

    /// The slot of an operand, if it is inserted. A weight is inserted here.
    #[inline(always)]
    fn known(&mut self, operand: &NodeRef, known: u32) -> Option<u32> {
        if known != NONE {
            return Some(known);
        }
        if operand.is_unique() {
            return None; // it cannot have been reached another way
        }
        match (self.find(operand), &operand.op) {
            (None, NodeOp::Weight(variable, leaf)) => Some(self.insert_weight(held(operand), *variable, *leaf)),
            (found, _) => found,
        }
    }

    /// Inserts scalar arithmetic whose operands are all inserted, and evaluates it if they are
    /// numbers.
    #[inline(always)]
    fn insert_arithmetic(&mut self, node: NodePtr, operands: [u32; 2], lone: impl FnOnce() -> bool) -> Option<u32> {
        let (number, trained, arithmetic) = self.arithmetic(&node, operands)?;
        let entry = NodeSlot { operands, arithmetic, ..NodeSlot::of_number(node, number, trained) };
        let index = self.add(entry, node, lone);
        self.skip_marks(index);
        Some(index)
    }

    /// Inserts any other node.
    fn insert_other(&mut self, node: NodePtr, operands: [u32; 2], lone: bool, inline: InlinePolicy) -> u32 {
        if let Some(value) = node.op.as_constant() {
            self.stats.inserted_constant();
            return self.add_value(node, value, false, lone);
        }
        match &node.op {
            NodeOp::Weight(variable, leaf) => self.insert_weight(node, *variable, *leaf),
            NodeOp::Primitive(op)
                if op.effect() == Some(Effect::Checkpoint)
                    && self.entry(operands[0]).number().is_some()
                    && self.index.stamp_only(&node, operands[0]) =>
            {
                // A number is never discarded, so a boundary above it needs no slot of its own. It
                // must be stamped even if it is uniquely referenced: an entry in the fallback map
                // would not be removed with the slot.
                if self.env.keep() == Keep::Values {
                    self.close_segment(operands[0]);
                }
                // Whether the operand is already a number may depend on timing. The counters must
                // not.
                self.stats.without_slot();
                operands[0]
            }
            op => {
                self.stats.inserted_other();
                let index = self.add(NodeSlot::pending(node, operands), node, || lone);
                if node.operands().len() == 3 {
                    let operands = [0, 1, 2].map(|which| self.operand_by_stamp(index, which));
                    self.nodes.slot_mut(index).set_operands(operands);
                }
                match op {
                    NodeOp::Primitive(op) if self.dispatch_inline(index, &**op, inline) => {}
                    _ => self.schedule(index),
                }
                index
            }
        }
    }

    fn insert_weight(&mut self, node: NodePtr, variable: VariableRef, leaf: u8) -> u32 {
        if self.index.may_have_other_replica(leaf)
            && let Some(index) = self.index.find_weight(variable.address(), variable.has_several_leaves())
        {
            self.claim(node, index);
            return index; // no slot of its own
        }
        self.stats.inserted_other();
        let trained = !variable.frozen();
        // The fast path for a number, without a `Value`, unless the pass reads weights elsewhere.
        let index = match if self.env.reads_weights() { variable.number() } else { None } {
            Some(number) => self.add(NodeSlot::of_number(node, number, trained), node, || false),
            None => {
                let around = self.env.parent().and_then(|around| around.value_of_weight(node));
                let value = around.unwrap_or_else(|| self.env.read(&variable));
                self.add_value(node, value, trained, false)
            }
        };
        self.index.add_weight(variable.address(), index);
        index
    }

    #[inline(always)]
    fn add_value(&mut self, node: NodePtr, value: Value, trained: bool, lone: bool) -> u32 {
        if let Some(number) = Scalar::of(&value) {
            return self.add(NodeSlot::of_number(node, number, trained), node, || lone);
        }
        let entry = NodeSlot { node: Some(node), state: SlotState::Ready, trained, ..NodeSlot::FREE };
        let index = self.add(entry, node, || lone);
        self.nodes.ext_or_new(index).outcome = Some(Ok(value));
        index
    }

    #[inline(always)]
    fn add(&mut self, slot: NodeSlot, node: NodePtr, lone: impl FnOnce() -> bool) -> u32 {
        let (index, is_reused) = self.nodes.insert(slot);
        if is_reused {
            self.stats.without_slot();
        }
        if !lone() {
            self.claim(node, index);
        }
        index
    }

    /// The value of scalar arithmetic with ready operands, and whether a gradient can flow through
    /// it.
    #[inline(always)]
    fn arithmetic(&self, node: &Node, operands: [u32; 2]) -> Option<(Scalar, bool, Arithmetic)> {
        let mut trained = false;
        let operand = |which: usize| {
            let entry = self.entry(operands[which]);
            trained |= entry.trained;
            entry.number()
        };
        let (number, arithmetic) = arithmetic(&node.op, operand)?;
        Some((number, trained, arithmetic))
    }

    /// The same for a node that has waited for its operands.
    pub(super) fn arithmetic_of(&self, index: u32) -> Option<(Scalar, bool, Arithmetic)> {
        let entry = self.entry(index);
        self.arithmetic(&entry.held(), entry.operands)
    }
}

/// The value of scalar arithmetic; `None` for other nodes, and if an operand is not a number.
#[inline(always)]
pub(crate) fn arithmetic(
    op: &NodeOp,
    mut operand: impl FnMut(usize) -> Option<Scalar>,
) -> Option<(Scalar, Arithmetic)> {
    Some(match op {
        NodeOp::Binary(op, _) => {
            let number = match operand(0)? {
                Scalar::F32(a) => Scalar::F32(binary(*op, a, operand(1)?.single())),
                Scalar::F64(a) => Scalar::F64(binary(*op, a, operand(1)?.double())),
            };
            (number, Arithmetic::Binary(*op))
        }
        NodeOp::WithNumber(op, side, number, _) => {
            let number = match operand(0)? {
                Scalar::F32(x) => Scalar::F32(with_number(*op, *side, *number as f32, x)),
                Scalar::F64(x) => Scalar::F64(with_number(*op, *side, *number, x)),
            };
            (number, Arithmetic::Other)
        }
        NodeOp::Unary(op, _) => {
            let number = match operand(0)? {
                Scalar::F32(x) => Scalar::F32(out_of_line(*op, x, Unary::value)),
                Scalar::F64(x) => Scalar::F64(out_of_line(*op, x, Unary::value)),
            };
            (number, Arithmetic::Unary(*op))
        }
        _ => return None,
    })
}

#[inline(always)]
fn with_number<N: Number>(op: Binary, side: Side, number: N, x: N) -> N {
    let (a, b) = match side {
        Side::Left => (number, x),
        Side::Right => (x, number),
    };
    binary(op, a, b)
}

#[inline(always)]
fn binary<N: Number>(op: Binary, a: N, b: N) -> N {
    inline_if_basic(
        op,
        (a, b),
        #[inline(always)]
        |op, (a, b)| op.value(a, b),
    )
}
