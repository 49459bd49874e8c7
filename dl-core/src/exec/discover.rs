//! Discovery: inserts a node, and all that it depends on, into the node table.
//!
//! A depth-first traversal that never recurses makes a slot for each node, operands before their
//! consumers. Nodes with ready operands that cost next to nothing (constants, weights, scalar
//! arithmetic) are evaluated as they are inserted, so a graph of scalars never sees the
//! queue. A small operation of the library is run inline (see `inline.rs`). The first traversal of
//! a pass begins before any other thread has the pass, and stops at the first node that needs more
//! than the node table (see `exclusive_pass.rs`).
//!
//! The pass recognises a node by the stamp on it (see `owner_stamp.rs`). To stamp a node takes an
//! atomic read-modify-write, so what needs no stamp has none. A *uniquely referenced* node, whose
//! only handle is one operand of one consumer, cannot be reached another way: its consumer knows
//! its slot, and it is stamped when a handle to it is given out. (A consumer with more than two
//! operands looks them up: it stamps such a node when that has been inserted.)
//!
//! # Suspension
//!
//! A traversal may release the state lock for a moment, so that other threads need not wait for its
//! end. Other traversals may then insert the same nodes. From the first suspension on the pass is
//! [interleaved](PassState::suspend), and must keep two rules, so that no node is inserted twice:
//! every node that is inserted is stamped, and every node is looked up before it is inserted.

use crate::exec::dispatch::YIELD_AGAIN_NODES;
use crate::exec::node_table::{Arithmetic, NONE, NodeSlot, SlotState, Status};
use crate::exec::state::PassState;
use crate::exec::{Keep, Pass, vec_pool};
use crate::graph::identity::Effect;
use crate::graph::node::{Expression, Node};
use crate::graph::node_ref::{AnyLayer, Held};
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use crate::graph::variable::{Variable, VariableRef};
use crate::parallel::sync::Ordering;
use dl_math::{Binary, Number, Side};

/// Fewer slots than this are not worth a sweep.
const SWEEP_AT_LEAST: usize = if cfg!(shuttle) { 4 } else { 64 };

/// The traversals of a pass.
pub(super) struct Discovery {
    /// How many were begun, each from a new root.
    roots: usize,
    /// Whether operands have smaller numbers than their consumers. Dynamic nodes end that.
    in_order: bool,
    /// The stack of the traversal before, for reuse.
    spare_stack: Vec<Frame>,
    /// Whether a traversal was suspended: see [`suspend`](PassState::suspend).
    interleaved: bool,
    /// How many slots in use are worth a sweep.
    sweep_at: usize,
}

impl Default for Discovery {
    fn default() -> Self {
        let spare_stack = Vec::new();
        Discovery { roots: 0, in_order: true, spare_stack, interleaved: false, sweep_at: SWEEP_AT_LEAST }
    }
}

impl Discovery {
    pub(super) fn reset(&mut self) {
        vec_pool::clear(&mut self.spare_stack);
        (self.roots, self.in_order, self.interleaved, self.sweep_at) = (0, true, false, SWEEP_AT_LEAST);
    }

    /// How many traversals were begun.
    pub(super) fn roots(&self) -> usize {
        self.roots
    }

    /// From now on operands may have larger numbers than their consumers.
    pub(super) fn lose_order(&mut self) {
        self.in_order = false;
    }

    /// The next sweep is worth it when so many slots are in use.
    pub(super) fn sweep_when(&mut self, slots: usize) {
        self.sweep_at = slots.max(SWEEP_AT_LEAST);
    }
}

/// A frame of the traversal's stack: a node whose operands are being inserted.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    node: Held,
    /// The slot of the first operand, once it is known. For a node with more than two operands,
    /// which looks their slots up: the number of operands that are inserted.
    first: u32,
}

/// A depth-first traversal, which may be suspended.
pub(super) struct Traversal {
    /// The consumers of the node at hand, from the root on.
    stack: Vec<Frame>,
    /// The node that it goes on with.
    at: Frame,
    /// The slot of the operand that was inserted last, unless it is in the frame, too.
    second: u32,
    pub(super) inline: InlinePolicy,
    /// The same for the root.
    inline_root: InlinePolicy,
    /// How many jobs were queued when it looked last, and when it last asked others to share them.
    queued: usize,
    offered: usize,
    /// How many threads waited for the lock when it looked last, and how many nodes ago it yielded.
    waiting: usize,
    since_yield: usize,
}

/// Whether a traversal runs the kernels of new nodes inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InlinePolicy {
    /// Never: all of them are queued.
    Queue,
    /// Those that are small.
    Small,
    /// The same, and an expensive one if nothing else is queued: nothing is going to follow it.
    Last,
}

/// The operands of a node, as far as they are inserted.
enum Operands {
    /// All of them are inserted: these are their slots, if there are not more than two.
    Known(u32, u32),
    /// The first that is not inserted, and the `first` of its consumer's [`Frame`].
    Missing(Held, u32),
}

/// How far a traversal came.
pub(super) enum TraversalStep {
    /// To its end: this is the slot of the root.
    Done(u32),
    /// With the node table alone, to a node that needs the pass, too: anything but scalar
    /// arithmetic, constants and weights. That node is not inserted yet.
    NeedsPass,
    /// To a point where other threads wait for the lock, and are to have it for a moment.
    Yields,
    /// To a point where so much is queued that other threads should share it.
    Offers,
}

/// How a node was inserted.
enum Inserted {
    Evaluated,
    /// It is no scalar arithmetic, constant or weight: it may have been queued.
    Other,
}

#[allow(unsafe_code, reason = "the pass holds the roots of all that it has entered")]
fn held(layer: &AnyLayer) -> Held {
    // SAFETY: the root of a traversal is kept alive by its caller, and then by a handle of the
    // pass; what is below it, by it. Nothing unwinds from a traversal
    unsafe { Held::new(layer) }
}

impl Traversal {
    fn inline_for_root(&self) -> InlinePolicy {
        if self.inline == InlinePolicy::Queue { InlinePolicy::Queue } else { self.inline_root }
    }
}

impl Pass {
    /// The value that a weight has in this pass, if it has read it.
    fn value_of_weight(&self, node: Held) -> Option<Value> {
        let mut state = self.state();
        let index = state.find_any_replica(&node)?;
        match state.status(index) {
            Status::Ready(value) => Some(value.to_value()),
            _ => None,
        }
    }

    /// Whether a traversal is to stop here for the sake of other threads.
    ///
    /// Positions in bodies are counted from an origin, which the first traversal settles. Until it
    /// has, it must not stop once it has met a dynamic node: the body might draw a random number.
    #[inline]
    fn stops(&self, traversal: &mut Traversal, state: &PassState) -> Option<TraversalStep> {
        let queued = state.ready.len();
        if state.discovery.roots == 1 && !state.discovery.in_order && state.env.origin().is_none() {
            return None;
        }
        if queued > traversal.queued {
            if state.workers.tickets() > 0 {
                self.notify_events();
            }
            // one of the jobs is for this thread; each time that there are twice as many is often
            // enough
            if queued > 2 * traversal.offered.max(1) - 1 && state.ready.is_worth_sharing() {
                (traversal.queued, traversal.offered) = (queued, queued);
                return Some(TraversalStep::Offers);
            }
        }
        traversal.queued = queued;
        let waiting = self.lock_waiters.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut traversal.waiting, waiting);
        traversal.since_yield += 1;
        let again = waiting > 0 && traversal.since_yield >= YIELD_AGAIN_NODES;
        // under a model checker other threads come in everywhere
        if !(waiting > before || again || cfg!(shuttle)) {
            return None;
        }
        traversal.since_yield = 0;
        Some(TraversalStep::Yields)
    }
}

impl PassState {
    /// Whether the numbers of the slots are those of a depth-first traversal from the only root,
    /// operands before their consumers.
    pub(crate) fn in_order(&self) -> bool {
        self.discovery.in_order && self.discovery.roots == 1
    }

    /// The slot of a node, if this pass has one. That of a node without a stamp is not found.
    #[inline]
    pub(crate) fn find(&self, node: &Node) -> Option<u32> {
        self.index.find(node)
    }

    /// The slot of an operand of this node.
    #[inline]
    pub(crate) fn operand(&self, index: u32, which: usize) -> u32 {
        let known = self.entry(index).operand(which);
        if known == NONE { self.operand_by_claim(index, which) } else { known }
    }

    #[cold]
    fn operand_by_claim(&self, index: u32, which: usize) -> u32 {
        let node = self.node(index);
        self.find(&node.operands()[which]).expect("operands are entered before their consumer")
    }

    /// A handle to a node, which may come back to this pass.
    pub(crate) fn handle(&mut self, index: u32) -> AnyLayer {
        self.stamp_unique(index);
        self.node(index).handle()
    }

    /// Stamps a node to which a handle is going to be given out.
    pub(crate) fn stamp_unique(&mut self, index: u32) {
        let node = self.node(index);
        if self.find(&node).is_none() {
            self.claim(node, index);
        }
    }

    fn claim(&mut self, node: Held, index: u32) {
        self.index.stamp(&node, index);
    }

    /// Begins a traversal from a new root. The pass must have a handle to it in the end.
    #[inline]
    pub(super) fn begin_traversal(&mut self, root: &AnyLayer, inline: InlinePolicy) -> Traversal {
        self.note_root();
        let at = Frame { node: held(root), first: NONE };
        let (stack, queued) = (std::mem::take(&mut self.discovery.spare_stack), self.ready.len());
        Traversal {
            stack,
            at,
            second: NONE,
            inline,
            inline_root: inline,
            queued,
            offered: 0,
            waiting: 0,
            since_yield: 0,
        }
    }

    /// The same for the first root, which nothing else follows: so its kernel is run inline, even
    /// if it is expensive, when all else is done.
    #[inline]
    pub(super) fn begin_first_traversal(&mut self, root: &AnyLayer, watched: bool) -> Traversal {
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

    /// Inserts a dynamic node, which needs nothing yet. The pass must have a handle to it.
    pub(super) fn insert_dynamic(&mut self, root: &AnyLayer) -> u32 {
        self.note_root();
        self.insert_other(held(root), [NONE; 2], false, InlinePolicy::Queue).0
    }

    /// A traversal is about to release the lock: from now on the pass is interleaved. What this
    /// traversal has inserted so far without a stamp, and no consumer knows yet, is stamped. It
    /// counts as running until it has the lock again.
    pub(super) fn suspend(&mut self, traversal: &Traversal) {
        self.workers.run_begin();
        if std::mem::replace(&mut self.discovery.interleaved, true) {
            return; // everything has been stamped since
        }
        for frame in traversal.stack.iter().chain([&traversal.at]) {
            if frame.first != NONE && frame.node.operands().len() <= 2 {
                self.stamp_unique(frame.first);
            }
        }
        if traversal.second != NONE {
            self.stamp_unique(traversal.second);
        }
    }

    /// Goes on to insert what a node needs, and then the node. There is no `pass` while no other
    /// thread can have it; then the traversal stops at the first node that needs it.
    pub(super) fn traverse(&mut self, traversal: &mut Traversal, pass: Option<&Pass>) -> TraversalStep {
        let mut stack = std::mem::take(&mut traversal.stack);
        let Frame { mut node, mut first } = traversal.at;
        let mut second = traversal.second;
        let step = loop {
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
            let lone = || !is_root && node.is_lone();
            let (index, inserted) = match self.inserted_meanwhile(node) {
                Some(index) => (index, Inserted::Evaluated),
                None => match self.insert_arithmetic(node, operands, lone) {
                    Some(index) => (index, Inserted::Evaluated),
                    None if pass.is_none() && !node.expression.is_leaf() => {
                        stack.extend(consumer);
                        // many are looked up again
                        if operands != [NONE; 2] {
                            [first, second] = operands;
                        }
                        (traversal.at, traversal.second) = (Frame { node, first }, second);
                        traversal.stack = stack;
                        return TraversalStep::NeedsPass;
                    }
                    None if is_root => self.insert_other(node, operands, false, traversal.inline_for_root()),
                    None => self.insert_other(node, operands, node.is_lone(), traversal.inline),
                },
            };
            let Some(consumer) = consumer else {
                self.discovery.spare_stack = stack;
                return TraversalStep::Done(index);
            };
            node = consumer.node;
            [first, second] = if consumer.first == NONE { [index, NONE] } else { [consumer.first, index] };
            if let (Inserted::Other, Some(pass)) = (inserted, pass)
                && let Some(step) = pass.stops(traversal, self)
            {
                (traversal.at, traversal.second) = (Frame { node, first }, second);
                break step;
            }
        };
        traversal.stack = stack;
        step
    }

    /// The slot of a node that another traversal has inserted while this one was suspended.
    #[inline(always)]
    fn inserted_meanwhile(&self, node: Held) -> Option<u32> {
        if self.discovery.interleaved { self.find(&node) } else { None }
    }

    /// From now on the pass has a handle to this node.
    pub(super) fn root(&mut self, index: u32) {
        self.nodes.add_root(index, Held::handle);
    }

    /// The slots of a node's operands, or the first operand that is not inserted yet. `first` and
    /// `second` are the slots of operands that were inserted before; with many operands, how many
    /// were inserted, and the slot of the last.
    #[inline(always)]
    fn operands(&mut self, node: Held, first: u32, second: u32) -> Operands {
        match &node.expression {
            Expression::Binary(_, [a, b]) => self.two(a, b, first, second),
            Expression::Unary(_, [x]) | Expression::WithNumber(_, _, _, [x]) => self.one(x, first),
            Expression::Primitive(op) => match op.operands() {
                [] => Operands::Known(NONE, NONE),
                [x] => self.one(x, first),
                [a, b] => self.two(a, b, first, second),
                operands => self.many(operands, first, second),
            },
            _ => Operands::Known(NONE, NONE),
        }
    }

    #[inline(always)]
    fn one(&mut self, x: &AnyLayer, first: u32) -> Operands {
        match self.known(x, first) {
            Some(first) => Operands::Known(first, NONE),
            None => Operands::Missing(held(x), NONE),
        }
    }

    #[inline(always)]
    fn two(&mut self, a: &AnyLayer, b: &AnyLayer, first: u32, second: u32) -> Operands {
        let Some(first) = self.known(a, first) else {
            // it is inserted after the first and all below that
            held(b).prefetch();
            return Operands::Missing(held(a), NONE);
        };
        match self.known(b, second) {
            Some(second) => Operands::Known(first, second),
            None => {
                // the second branch of a tree: its nodes are inserted as they were built
                held(b).prefetch_later();
                Operands::Missing(held(b), first)
            }
        }
    }

    /// Not inlined: nodes with one operand or two are the common case.
    #[inline(never)]
    fn many(&mut self, operands: &[AnyLayer], entered: u32, last: u32) -> Operands {
        let entered = if entered == NONE { 0 } else { entered as usize };
        if last != NONE && self.find(&operands[entered]).is_none() {
            self.claim(held(&operands[entered]), last); // uniquely referenced, but looked up
        }
        let missing = (entered..operands.len()).find(|&which| self.find(&operands[which]).is_none());
        missing.map_or(Operands::Known(NONE, NONE), |which| Operands::Missing(held(&operands[which]), which as u32))
    }

    /// The slot of an operand, if it is inserted. A weight is inserted here.
    #[inline(always)]
    fn known(&mut self, operand: &AnyLayer, known: u32) -> Option<u32> {
        if known != NONE {
            return Some(known);
        }
        if operand.is_lone() && !self.discovery.interleaved {
            return None; // it cannot have been reached another way
        }
        match (self.index.find_by_stamp(operand), &operand.expression) {
            (Some(index), _) => Some(index),
            (None, Expression::Weight(variable, leaf)) => {
                Some(self.find_or_insert_weight(held(operand), *variable, *leaf))
            }
            (None, _) => self.index.find_in_fallback(operand),
        }
    }

    /// Inserts scalar arithmetic whose operands are all inserted, and evaluates it if they are
    /// numbers.
    #[inline(always)]
    fn insert_arithmetic(&mut self, node: Held, operands: [u32; 2], lone: impl FnOnce() -> bool) -> Option<u32> {
        let (number, trained, arithmetic) = self.arithmetic(&node, operands)?;
        let entry = NodeSlot { operands, arithmetic, ..NodeSlot::of_number(node, number, trained) };
        let index = self.add(entry, node, lone);
        self.skip_marks(index);
        Some(index)
    }

    /// The same for any other node.
    fn insert_other(&mut self, node: Held, operands: [u32; 2], lone: bool, inline: InlinePolicy) -> (u32, Inserted) {
        if let Some(value) = node.expression.as_constant() {
            self.stats.inserted_constant();
            return (self.add_value(node, value, false, lone), Inserted::Evaluated);
        }
        let index = match &node.expression {
            Expression::Weight(variable, leaf) => self.insert_weight(node, *variable, *leaf),
            Expression::Primitive(op)
                if op.effect() == Some(Effect::Checkpoint)
                    && self.entry(operands[0]).number().is_some()
                    && self.index.stamp_only(&node, operands[0]) =>
            {
                // a number is never discarded, so its mark needs no slot of its own. It must be
                // stamped, though it may be uniquely referenced: an entry in the fallback map would
                // not be removed with the slot
                if self.env.keep() == Keep::Values {
                    self.close_segment(operands[0]);
                }
                // Whether the operand is a number by now may depend on timing; the counters must
                // not.
                self.stats.without_slot();
                operands[0]
            }
            expression => {
                self.stats.inserted_other();
                let index = self.add(NodeSlot::pending(node, operands), node, || lone);
                if node.operands().len() == 3 {
                    let operands = [0, 1, 2].map(|which| self.operand_by_claim(index, which));
                    self.nodes.slot_mut(index).set_operands(operands);
                }
                match expression {
                    Expression::Primitive(op) if self.dispatch_inline(index, &**op, inline) => {}
                    _ => self.schedule(index),
                }
                index
            }
        };
        (index, Inserted::Other)
    }

    /// The slot of a weight that this pass has not stamped.
    fn find_or_insert_weight(&mut self, node: Held, variable: VariableRef, leaf: u8) -> u32 {
        self.index.find_in_fallback(&node).unwrap_or_else(|| self.insert_weight(node, variable, leaf))
    }

    fn insert_weight(&mut self, node: Held, variable: VariableRef, leaf: u8) -> u32 {
        if self.index.may_have_other_replica(leaf)
            && let Some(index) = self.index.find_weight(variable.address(), variable.has_several_leaves())
        {
            self.claim(node, index);
            return index; // no slot of its own
        }
        self.stats.inserted_other();
        let trained = !variable.frozen();
        let index = match self.number_of_weight(&variable) {
            Some(number) => self.add(NodeSlot::of_number(node, number, trained), node, || false),
            None => self.insert_value_of_weight(node, &variable, trained),
        };
        self.index.add_weight(variable.address(), index);
        index
    }

    /// Not inlined: numbers are the common case.
    #[inline(never)]
    fn insert_value_of_weight(&mut self, node: Held, variable: &Variable, trained: bool) -> u32 {
        let value = self.value_of_weight(node, variable);
        self.add_value(node, value, trained, false)
    }

    /// The number that a weight is, unless this pass has other values of weights. A fast path: no
    /// [`Value`] is made.
    #[inline(always)]
    fn number_of_weight(&self, variable: &Variable) -> Option<Scalar> {
        if self.env.reads_weights() { variable.number() } else { None }
    }

    #[inline(never)]
    fn value_of_weight(&self, node: Held, variable: &Variable) -> Value {
        self.env.parent().and_then(|around| around.value_of_weight(node)).unwrap_or_else(|| self.env.read(variable))
    }

    #[inline(always)]
    fn add_value(&mut self, node: Held, value: Value, trained: bool, lone: bool) -> u32 {
        if let Some(number) = Scalar::of(&value) {
            return self.add(NodeSlot::of_number(node, number, trained), node, || lone);
        }
        let entry = NodeSlot { node: Some(node), state: SlotState::Ready, trained, ..NodeSlot::FREE };
        let index = self.add(entry, node, || lone);
        self.nodes.ext_or_new(index).outcome = Some(Ok(value));
        index
    }

    #[inline(always)]
    fn add(&mut self, slot: NodeSlot, node: Held, lone: impl FnOnce() -> bool) -> u32 {
        let (index, is_reused) = self.nodes.insert(slot);
        if is_reused {
            self.stats.without_slot();
        }
        if !lone() || self.discovery.interleaved {
            self.claim(node, index);
        }
        index
    }

    /// The value of scalar arithmetic whose operands are ready, and whether a gradient could flow
    /// through it.
    #[inline(always)]
    fn arithmetic(&self, node: &Node, operands: [u32; 2]) -> Option<(Scalar, bool, Arithmetic)> {
        let mut trained = false;
        let operand = |which: usize| {
            let entry = self.entry(operands[which]);
            trained |= entry.trained;
            entry.number()
        };
        let (number, arithmetic) = arithmetic(&node.expression, operand)?;
        Some((number, trained, arithmetic))
    }

    /// The same for a node that had to wait.
    pub(super) fn arithmetic_of(&self, index: u32) -> Option<(Scalar, bool, Arithmetic)> {
        let entry = self.entry(index);
        self.arithmetic(&entry.held(), entry.operands)
    }
}

/// The value of scalar arithmetic, if this is that and its operands are numbers.
#[inline(always)]
pub(crate) fn arithmetic(
    expression: &Expression,
    mut operand: impl FnMut(usize) -> Option<Scalar>,
) -> Option<(Scalar, Arithmetic)> {
    Some(match expression {
        Expression::Binary(op, _) => {
            let number = match operand(0)? {
                Scalar::F32(a) => Scalar::F32(op.value(a, operand(1)?.single())),
                Scalar::F64(a) => Scalar::F64(op.value(a, operand(1)?.double())),
            };
            (number, Arithmetic::Binary(*op))
        }
        Expression::WithNumber(op, side, number, _) => {
            let number = match operand(0)? {
                Scalar::F32(x) => Scalar::F32(with_number(*op, *side, *number as f32, x)),
                Scalar::F64(x) => Scalar::F64(with_number(*op, *side, *number, x)),
            };
            (number, Arithmetic::Other)
        }
        Expression::Unary(op, _) => {
            let number = match operand(0)? {
                Scalar::F32(x) => Scalar::F32(op.value(x)),
                Scalar::F64(x) => Scalar::F64(op.value(x)),
            };
            (number, Arithmetic::Unary(*op))
        }
        _ => return None,
    })
}

#[inline(always)]
fn with_number<N: Number>(op: Binary, side: Side, number: N, x: N) -> N {
    match side {
        Side::Left => op.value(number, x),
        Side::Right => op.value(x, number),
    }
}
