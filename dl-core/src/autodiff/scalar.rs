//! Pullback of scalar arithmetic, in both readings of its rules: in plain numbers, and in layers.

use crate::autodiff::accumulator::Accumulator;
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::reverse::Targets;
use crate::exec::{Arithmetic, NodeSlot, PassState, vec_pool};
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::{NodePtr, NodeRef};
use crate::graph::pointwise::Pointwise;
use crate::graph::scalar::{Scalar, inline_if_basic, out_of_line};
use crate::graph::value::Value;
use dl_math::{Algebra, Binary, Number, Side, Term};

/// The number types of the numeric reading.
pub(super) trait Plain: Number {
    fn of_entry(entry: &NodeSlot) -> Option<Self>;
    fn scalar(self) -> Scalar;
    fn add_to(self, arrived: &mut Accumulator);
}

macro_rules! plain {
    ($T:ident $Repr:ident) => {
        impl Plain for $T {
            #[inline(always)]
            fn of_entry(entry: &NodeSlot) -> Option<Self> {
                match entry.number() {
                    Some(Scalar::$Repr(number)) => Some(number),
                    _ => None,
                }
            }

            #[inline(always)]
            fn scalar(self) -> Scalar {
                Scalar::$Repr(self)
            }

            #[inline(always)]
            fn add_to(self, arrived: &mut Accumulator) {
                match arrived {
                    Accumulator::Nothing => *arrived = Accumulator::$Repr(self),
                    Accumulator::$Repr(sum) => *sum += self,
                    _ => arrived.add(AnyDelta::Ready(self.scalar().into())),
                }
            }
        }
    };
}

plain!(f32 F32);
plain!(f64 F64);

/// Propagates the cotangent of this slot to the trained weights, where only scalar arithmetic was
/// evaluated. It is separate from the loop over layers, which could do the same, because that loop
/// needs more registers than there are.
pub(super) fn walk_back_in_numbers(
    state: &PassState,
    root: u32,
    arrived: &mut [Accumulator],
    deltas: &mut Vec<(NodePtr, Value)>,
) {
    for place in (0..root as usize + 1).rev() {
        let index = place as u32;
        match &arrived[place] {
            Accumulator::Nothing => continue,
            &Accumulator::F32(d) => number_back(state, index, d, arrived, deltas),
            &Accumulator::F64(d) => number_back(state, index, d, arrived, deltas),
            _ => unreachable!("cotangents of numbers are numbers"),
        }
        // A number has no destructor.
        std::mem::forget(std::mem::take(&mut arrived[place]));
    }
}

/// Propagates the cotangent `d` of this slot to its operands, or, if it is a weight, to the list of
/// deltas.
#[inline(always)]
fn number_back<N: Plain>(
    state: &PassState,
    index: u32,
    d: N,
    arrived: &mut [Accumulator],
    deltas: &mut Vec<(NodePtr, Value)>,
) {
    if !in_numbers(state, index, d, arrived) {
        let node = state.node(index);
        debug_assert!(matches!(node.op, NodeOp::Weight(..)), "what is trained is arithmetic or a weight");
        vec_pool::push_made(deltas, || (node, d.scalar().into()));
    }
}

/// The numeric reading: adds the cotangents of the operands of scalar arithmetic, given its
/// cotangent `d`. Returns false if the slot is no scalar arithmetic.
#[inline(always)]
pub(super) fn in_numbers<N: Plain>(state: &PassState, index: u32, d: N, arrived: &mut [Accumulator]) -> bool {
    let entry = state.entry(index);
    let [at, bt] = entry.operands;
    let Some(y) = N::of_entry(entry).map(Term) else { return false };
    let d = Term(d);
    match entry.arithmetic {
        Arithmetic::Binary(op) => {
            let (left, right) = (state.entry(at), state.entry(bt));
            let (Some(a), Some(b)) = (N::of_entry(left), N::of_entry(right)) else { return false };
            let (da, db) = inline_if_basic(
                op,
                (a, b, y, d, (left.trained, right.trained)),
                #[inline(always)]
                |op, (a, b, y, d, wanted)| op.pullbacks([&Term(a), &Term(b), &y, &d], wanted),
            );
            if let Some(delta) = da {
                delta.0.add_to(&mut arrived[at as usize]);
            }
            if let Some(delta) = db {
                delta.0.add_to(&mut arrived[bt as usize]);
            }
        }
        Arithmetic::Unary(op) => {
            let Some(x) = N::of_entry(state.entry(at)) else { return false };
            if let Some(delta) = out_of_line(op, (x, y, d), |op, (x, y, d)| op.pullback(&Term(x), &y, &d)) {
                delta.0.add_to(&mut arrived[at as usize]);
            }
        }
        Arithmetic::Other => {
            let node = entry.held();
            let &NodeOp::WithNumber(op, side, number, _) = &node.op else { return false };
            let Some(x) = N::of_entry(state.entry(at)) else { return false };
            let delta = inline_if_basic(
                op,
                (side, [N::of(number), x, y.0, d.0]),
                #[inline(always)]
                |op, (side, of_rule)| one_side(op, side, of_rule),
            );
            if let Some(delta) = delta {
                delta.add_to(&mut arrived[at as usize]);
            }
        }
    }
    true
}

/// The layer reading: the cotangents of the operands of scalar arithmetic, as far as there are two
/// operands and the cotangent is needed. All rules are inlined here, so it is not generic over the
/// targets.
pub(super) fn in_layers<T: Number + Pointwise>(
    state: &mut PassState,
    index: u32,
    delta: AnyDelta,
    goal: &dyn Targets,
) -> [Option<NodeRef>; 2] {
    let node = state.node(index);
    let [y, d] = [state.handle(index), delta.into_layer(&node)];
    let operand = |which| {
        let operand = state.operand(index, which);
        (state.handle(operand), goal.wants(state, operand))
    };
    rule_in_layers::<T>(&node.op, [y, d], operand)
}

/// The layer reading for the value `y` and the cotangent `d`, with operands that are needed or not.
pub(crate) fn rule_in_layers<T: Number + Pointwise>(
    op: &NodeOp,
    [y, d]: [NodeRef; 2],
    mut operand: impl FnMut(usize) -> (NodeRef, bool),
) -> [Option<NodeRef>; 2] {
    let [y, d] = [y, d].map(Layer::<T>::from_any);
    let mut operand = |which| {
        let (operand, is_needed) = operand(which);
        (Layer::<T>::from_any(operand), is_needed)
    };
    let deltas = match op {
        NodeOp::Unary(op, _) => [op.pullback(&Term(operand(0).0), &Term(y), &Term(d)).map(|delta| delta.0), None],
        NodeOp::WithNumber(op, side, number, _) => {
            let number = Layer::constant(T::of(*number));
            [one_side(*op, *side, [number, operand(0).0, y, d]), None]
        }
        NodeOp::Binary(op, _) => {
            let ((a, left), (b, right)) = (operand(0), operand(1));
            let [a, b, y, d] = &[a, b, y, d].map(Term);
            let (left, right) = op.pullbacks([a, b, y, d], (left, right));
            [left, right].map(|delta| delta.map(|delta| delta.0))
        }
        _ => unreachable!("only called for scalar arithmetic"),
    };
    deltas.map(|delta| delta.map(Layer::into_any))
}

/// The rule for `x`, the operand on the other side of the number.
#[inline(always)]
pub(crate) fn one_side<A: Algebra>(op: Binary, side: Side, [number, x, y, d]: [A; 4]) -> Option<A> {
    let (number, x, y, d) = (Term(number), Term(x), Term(y), Term(d));
    let delta = match side {
        Side::Left => op.pullback_right(&number, &x, &y, &d),
        Side::Right => op.pullback_left(&x, &number, &y, &d),
    };
    delta.map(|delta| delta.0)
}
