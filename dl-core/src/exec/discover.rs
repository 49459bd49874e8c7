//! Entering layers, and all that they need, into the books.
//!
//! A depth-first walk that never recurses makes an entry for each node, operands before their
//! consumers. Nodes whose operands are there already and which cost next to nothing (constants,
//! weights, scalar arithmetic) are evaluated during that walk, so a graph of scalars never sees the
//! queue. The first walk of a pass begins before anybody else has that pass, with the books alone,
//! and stops where they are not enough (see `unshared.rs`). At a small kernel the walk is
//! interrupted, so that the kernel can be run (see `at_once.rs`).
//!
//! A pass knows a node again by the claim on it (see `claim.rs`). A claim is an instruction that
//! all others wait for, so what needs none has none. A *lone* node, whose only handle is one
//! operand of one consumer, cannot be met another way: its entry is known to its consumer, and it
//! is claimed when somebody is given a handle to it. (A consumer with more than two operands looks
//! them up: it claims a lone one when that is entered.) The first few weights of a pass are found
//! by looking through them, and claimed when they are met again. And a root that is scalar
//! arithmetic is claimed when its value turns out not to be all that is wanted.

use crate::exec::at_once::Met;
use crate::exec::books::Books;
use crate::exec::entry::{Arithmetic, Entry, NONE, Scalar, State, Status};
use crate::exec::{Keep, Pass, tables};
use crate::graph::node::Expression;
use crate::graph::node::Node;
use crate::graph::node_ref::{AnyLayer, Held};
use crate::graph::value::Value;
use crate::graph::variable::{Variable, VariableRef};
use crate::parallel::sync::Ordering;
use dl_math::{Binary, Number, Side};
use std::sync::Weak;

/// A node whose operands are being entered.
#[derive(Clone, Copy)]
pub(super) struct Step {
    node: Held,
    /// The entry of the first operand, once it is known. Of a node with many operands, whose
    /// entries are looked up: how many of them are entered.
    first: u32,
}

/// So many weights of a pass have no claim until they are met again.
const UNCLAIMED: usize = 8;

/// A walk that may be interrupted: its steps are in the books meanwhile.
pub(super) struct Walk {
    /// The node that it goes on with, unless it is through.
    at: Option<Step>,
    /// The entry of the operand that was entered last, unless it is in the step, too.
    second: u32,
    pub(super) small: Small,
    /// The same for the root.
    pub(super) small_root: Small,
    /// Whether the root is claimed, even if it is scalar arithmetic.
    pub(super) claims_root: bool,
    /// How many jobs were in the queue when it was looked at last, and when others were asked to
    /// share them.
    queued: usize,
    offered: usize,
    /// For how many of those who wait for the books it has paused.
    paused: usize,
}

/// What is done with a small kernel that is met on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Small {
    /// It is queued as any other.
    Queued,
    /// It is run.
    Run,
    /// It is run; if it is the library's own, without an interruption.
    Computed,
    /// The same, however dear it is, if there is nothing else to do: nothing is going to follow.
    Last,
}

/// What is known of the operands of a node.
enum Operands {
    /// All of them are entered: these are the entries of two of them, if they are not more.
    Known(u32, u32),
    /// This one is not, and is the first of them; and what is known of others, as in a [`Step`].
    Missing(Held, u32),
}

/// How far a walk came.
pub(super) enum Walked {
    /// Through: this is the entry of its root.
    Through(u32),
    /// To a small kernel, which is to be run before it goes on.
    Meets(u32),
    /// With the books alone, to what takes the pass, too: anything but scalar arithmetic, constants
    /// and weights. It is not entered yet.
    NeedsPass,
    /// To where others, who wait for the books, had better have them for a moment.
    Pauses,
    /// To where there is so much in the queue that others should share it.
    Offers,
}

/// What came of entering a node.
enum Entered {
    Done,
    /// It is a small kernel, which is to be run now.
    Runs,
    /// It is no scalar arithmetic: there may be something to see in the queue.
    Other,
}

#[allow(unsafe_code, reason = "the pass holds the roots of all that it has entered")]
fn held(layer: &AnyLayer) -> Held {
    // SAFETY: the root of a walk is kept alive by whoever begins it, and then by a handle of the
    // pass; what is below it, by it. Nothing unwinds from a walk
    unsafe { Held::new(layer) }
}

impl Walk {
    pub(super) fn is_through(&self) -> bool {
        self.at.is_none()
    }

    fn small_for_root(&self) -> Small {
        if self.small == Small::Queued { Small::Queued } else { self.small_root }
    }
}

impl Pass {
    /// The value that a weight has in this pass, if it has read it.
    fn value_of_weight(&self, node: Held) -> Option<Value> {
        let mut books = self.books();
        let index = books.find_any_leaf(&node)?;
        match books.status(index) {
            Status::Done(value) => Some(value.to_value()),
            _ => None,
        }
    }

    /// Whether a walk had better stop for a moment, for the sake of others.
    #[inline]
    fn stops(&self, walk: &mut Walk, books: &Books) -> Option<Walked> {
        let queued = books.queue.len();
        if queued > walk.queued {
            if books.tickets > 0 {
                self.tell_news();
            }
            // one of them is for this thread; each time that there are twice as many is often
            // enough
            if queued > 2 * walk.offered.max(1) - 1 && books.queue.is_worth_sharing() {
                (walk.queued, walk.offered) = (queued, queued);
                return Some(Walked::Offers);
            }
        }
        walk.queued = queued;
        let wanted = self.wanted.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut walk.paused, wanted);
        (wanted > before).then_some(Walked::Pauses)
    }
}

impl Books {
    /// The entry of a node, if this pass has met it. For a lone node, or a root that is not claimed
    /// yet, it is not known.
    #[inline]
    pub(crate) fn find(&self, node: &Node) -> Option<u32> {
        node.claim().entry(&self.seat).or_else(|| self.find_aside(node)).or_else(|| match &node.expression {
            Expression::Weight(variable, _) => self.find_unclaimed(*variable),
            _ => None,
        })
    }

    /// The entry of a node that another live pass has claimed.
    #[inline]
    fn find_aside(&self, node: &Node) -> Option<u32> {
        if self.side.is_empty() { None } else { self.side.get(&std::ptr::from_ref(node).addr()).copied() }
    }

    /// The entry of a weight that is among the first few.
    #[inline]
    fn find_unclaimed(&self, variable: VariableRef) -> Option<u32> {
        let address = variable.address();
        self.weights.iter().take(UNCLAIMED).find(|&&(known, _)| known == address).map(|&(_, index)| index)
    }

    /// The entry of an operand of this entry's node.
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

    /// Begins to enter a node and everything it needs. The pass is to have a handle to it in the
    /// end.
    #[inline]
    pub(super) fn begin_walk(&mut self, root: &AnyLayer, small: Small) -> Walk {
        self.roots_met += 1;
        if self.live_entries() >= self.sweep_at {
            self.sweep();
        }
        let at = Some(Step { node: held(root), first: NONE });
        let (small_root, queued) = (small, self.queue.len());
        Walk { at, second: NONE, small, small_root, claims_root: true, queued, offered: 0, paused: 0 }
    }

    /// The same for the first layer, which nothing else follows. So there is nobody to share its
    /// kernel with when all else is done, and it is run where it is met.
    #[inline]
    pub(super) fn begin_first_walk(&mut self, root: &AnyLayer, watched: bool) -> Walk {
        let (small, small_root) = if watched { (Small::Run, Small::Run) } else { (Small::Computed, Small::Last) };
        Walk { small_root, claims_root: false, ..self.begin_walk(root, small) }
    }

    /// Enters a dynamic node, which needs nothing yet. The pass is to have a handle to it.
    pub(super) fn enter_dynamic(&mut self, root: &AnyLayer) -> u32 {
        let _ = self.begin_walk(root, Small::Queued);
        self.enter_other(held(root), [NONE; 2], false, Small::Queued).0
    }

    /// Goes on to enter what a node needs, and then the node. There is no `pass` while nobody else
    /// can have it; then the walk stops at what needs it.
    pub(super) fn walk(&mut self, walk: &mut Walk, pass: Option<&Pass>) -> Walked {
        let mut steps = std::mem::take(&mut self.walk);
        let Some(Step { mut node, mut first }) = walk.at.take() else {
            unreachable!("a walk that is through does not go on")
        };
        let mut second = walk.second;
        let walked = loop {
            let operands = match self.operands(node, first, second) {
                Operands::Known(left, right) => [left, right],
                Operands::Missing(operand, first_known) => {
                    tables::push(&mut steps, Step { node, first: first_known });
                    (node, first, second) = (operand, NONE, NONE);
                    continue;
                }
            };
            let consumer = steps.pop();
            if let Some(next) = steps.last() {
                next.node.prefetch();
            }
            let is_root = consumer.is_none();
            let lone = || if is_root { !walk.claims_root } else { node.is_lone() };
            let (index, entered) = match self.enter_arithmetic(node, operands, lone) {
                Some(index) => (index, Entered::Done),
                None if pass.is_none() && !node.expression.is_leaf() => {
                    steps.extend(consumer);
                    // many are looked up again
                    if operands != [NONE; 2] {
                        [first, second] = operands;
                    }
                    (walk.at, walk.second) = (Some(Step { node, first }), second);
                    break Walked::NeedsPass;
                }
                None if is_root => self.enter_other(node, operands, false, walk.small_for_root()),
                None => self.enter_other(node, operands, node.is_lone(), walk.small),
            };
            let Some(consumer) = consumer else {
                break if let Entered::Runs = entered { Walked::Meets(index) } else { Walked::Through(index) };
            };
            node = consumer.node;
            [first, second] = if consumer.first == NONE { [index, NONE] } else { [consumer.first, index] };
            let stops = match entered {
                Entered::Done => None,
                Entered::Runs => Some(Walked::Meets(index)),
                Entered::Other => pass.and_then(|pass| pass.stops(walk, self)),
            };
            if let Some(walked) = stops {
                (walk.at, walk.second) = (Some(Step { node, first }), second);
                break walked;
            }
        };
        self.walk = steps;
        walked
    }

    /// From now on the pass has a handle to this node.
    pub(super) fn root(&mut self, index: u32) {
        self.root_with(index, Held::handle);
    }

    pub(super) fn root_with(&mut self, index: u32, handle: impl FnOnce(Held) -> AnyLayer) {
        let place = self.roots.len() as u32;
        let links = self.links(index);
        if links.root == NONE {
            links.root = place;
            self.roots.push((handle(self.node(index)), index));
        }
    }

    /// The entries of a node's operands, or the first operand that is not entered yet. Of what was
    /// entered last, the entry is known: it is that of the first operand, or of the second; or of
    /// the one that was missing among many.
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
            // its turn comes when what is below the first is entered
            held(b).prefetch();
            return Operands::Missing(held(a), NONE);
        };
        match self.known(b, second) {
            Some(second) => Operands::Known(first, second),
            None => {
                // the second branch of a tree: its nodes are entered as they were built
                held(b).prefetch_later();
                Operands::Missing(held(b), first)
            }
        }
    }

    /// Not inlined: nodes with one operand or two are what the walk is made for.
    #[inline(never)]
    fn many(&mut self, operands: &[AnyLayer], entered: u32, last: u32) -> Operands {
        let entered = if entered == NONE { 0 } else { entered as usize };
        if last != NONE && self.find(&operands[entered]).is_none() {
            self.claim(held(&operands[entered]), last); // a lone one, which is to be found all the same
        }
        let missing = (entered..operands.len()).find(|&which| self.find(&operands[which]).is_none());
        missing.map_or(Operands::Known(NONE, NONE), |which| Operands::Missing(held(&operands[which]), which as u32))
    }

    /// The entry of an operand, unless it is to be entered. A weight is entered on the way.
    #[inline(always)]
    fn known(&mut self, operand: &AnyLayer, known: u32) -> Option<u32> {
        if known != NONE {
            return Some(known);
        }
        if operand.is_lone() {
            return None; // nobody can have met it
        }
        match (operand.claim().entry(&self.seat), &operand.expression) {
            (Some(index), _) => Some(index),
            (None, Expression::Weight(variable, leaf)) => Some(self.meet_weight(held(operand), *variable, *leaf)),
            (None, _) => self.find_aside(operand),
        }
    }

    /// Makes the entry of scalar arithmetic whose operands are all entered. It is known to its
    /// consumer, or to whoever begins the walk.
    #[inline(always)]
    fn enter_arithmetic(&mut self, node: Held, operands: [u32; 2], lone: impl FnOnce() -> bool) -> Option<u32> {
        let (number, trained, arithmetic) = self.arithmetic(&node, operands)?;
        let entry = Entry { operands, arithmetic, ..Entry::of_number(node, number, trained) };
        let index = self.add(entry, node, lone);
        self.skip_marks(index);
        Some(index)
    }

    /// The same for any other node.
    fn enter_other(&mut self, node: Held, operands: [u32; 2], lone: bool, small: Small) -> (u32, Entered) {
        if let Some(value) = node.expression.as_constant() {
            self.others += 1;
            self.constants += 1;
            return (self.add_value(node, value, false, lone), Entered::Done);
        }
        let index = match &node.expression {
            Expression::Weight(variable, leaf) => self.enter_weight(node, *variable, *leaf),
            Expression::Primitive(op)
                if op.is_mark()
                    && self.entry(operands[0]).number().is_some()
                    && node.claim().claim(&self.seat, operands[0]) =>
            {
                // a number is not forgotten, so the mark needs no entry of its own. It is claimed
                // though it may be lone: where that fails, whoever looks it up would have it in the
                // side map, from which it goes with its own entry
                if self.keep == Keep::Values {
                    self.close_segment(operands[0]);
                }
                operands[0]
            }
            expression => {
                self.others += 1;
                let index = self.add(Entry::pending(node, operands), node, || lone);
                if node.operands().len() == 3 {
                    let operands = [0, 1, 2].map(|which| self.operand_by_claim(index, which));
                    self.entries[index as usize].set_operands(operands);
                }
                let met = match expression {
                    Expression::Primitive(op) if small != Small::Queued => self.meet(index, &**op, small),
                    _ => Met::Other,
                };
                match met {
                    Met::Computed => {}
                    Met::Small => return (index, Entered::Runs),
                    Met::Other => self.schedule(index),
                }
                index
            }
        };
        (index, Entered::Other)
    }

    /// The entry of a weight that this pass has not claimed.
    fn meet_weight(&mut self, node: Held, variable: VariableRef, leaf: u8) -> u32 {
        if let Some(index) = self.find_aside(&node) {
            return index;
        }
        match self.find_unclaimed(variable) {
            Some(index) => {
                self.claim(node, index); // it may be met time and again
                index
            }
            None => self.enter_weight(node, variable, leaf),
        }
    }

    fn enter_weight(&mut self, node: Held, variable: VariableRef, leaf: u8) -> u32 {
        // a weight has one leaf of each number: whoever meets one number only has not met it under
        // another leaf
        self.leaves_differ |= *self.leaf.get_or_insert(leaf) != leaf;
        if self.leaves_differ
            && let Some(index) = self.find_weight(variable.address(), variable.has_several_leaves())
        {
            self.claim(node, index);
            return index; // no entry of its own
        }
        self.others += 1;
        let (trained, lone) = (!variable.frozen(), self.weights.len() < UNCLAIMED);
        let index = match self.number_of_weight(&variable) {
            Some(number) => self.add(Entry::of_number(node, number, trained), node, || lone),
            None => self.enter_value_of_weight(node, &variable, trained, lone),
        };
        tables::push(&mut self.weights, (variable.address(), index));
        index
    }

    /// Not inlined: numbers are faster to enter without.
    #[inline(never)]
    fn enter_value_of_weight(&mut self, node: Held, variable: &Variable, trained: bool, lone: bool) -> u32 {
        let value = self.value_of_weight(node, variable);
        self.add_value(node, value, trained, lone)
    }

    /// The number that a weight is, unless its value is to be had elsewhere: for speed, as numbers
    /// are read without values.
    #[inline(always)]
    fn number_of_weight(&self, variable: &Variable) -> Option<Scalar> {
        if self.of_around.is_none() && self.snapshot.is_none() { variable.number() } else { None }
    }

    #[inline(never)]
    fn value_of_weight(&self, node: Held, variable: &Variable) -> Value {
        let around = self.of_around.as_ref().and_then(Weak::upgrade);
        around.and_then(|around| around.value_of_weight(node)).unwrap_or_else(|| self.read(variable))
    }

    #[inline(always)]
    fn add_value(&mut self, node: Held, value: Value, trained: bool, lone: bool) -> u32 {
        if let Some(number) = Scalar::of(&value) {
            return self.add(Entry::of_number(node, number, trained), node, || lone);
        }
        let entry = Entry { node: Some(node), state: State::Done, trained, ..Entry::VACANT };
        let index = self.add(entry, node, || lone);
        self.links(index).outcome = Some(Ok(value));
        index
    }

    #[inline(always)]
    fn add(&mut self, entry: Entry, node: Held, lone: impl FnOnce() -> bool) -> u32 {
        let index = if self.vacant.is_empty() {
            tables::push(&mut self.entries, entry);
            (self.entries.len() - 1) as u32
        } else {
            let index = self.take_vacant();
            self.entries[index as usize] = entry;
            index
        };
        if !lone() {
            self.claim(node, index);
        }
        index
    }

    #[inline(never)]
    fn take_vacant(&mut self) -> u32 {
        self.refilled += 1;
        self.vacant.pop().expect("there is a vacant entry")
    }

    /// The value of scalar arithmetic whose operands are there, and whether a gradient could flow
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

    /// The same for an entry that had to wait.
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
