//! Cotangents (deltas), and the accumulator of the cotangents that arrive at a node.

use crate::autodiff::accumulate::accumulated;
use crate::autodiff::optional_cotangent::OptionalCotangent;
use crate::exec::vec_pool::{self, Row, SMALL};
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, Node, NodeOp};
use crate::graph::node_ref::{NodePtr, NodeRef};
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};

/// The cotangent of a node, evaluated or not.
#[derive(Clone)]
pub(crate) enum AnyDelta {
    Ready(Value),
    Lazy(NodeRef),
    /// An unevaluated operation and the values of its operands: a step accumulates its result into
    /// the weight directly.
    Unmade(NodeRef, Vec<Value>),
    /// A conditional cotangent, known when a checkpoint segment has been rematerialized. It occurs
    /// only in an accumulator, before the sum of a node is emitted.
    OptionalCotangent(Box<OptionalCotangent>),
}

impl AnyDelta {
    /// This cotangent of `node`, as a layer.
    pub(crate) fn into_layer(self, node: &Node) -> NodeRef {
        match self {
            AnyDelta::Ready(value) => (node.vtable.delta_layer)(NodeOp::constant(value), node.place),
            AnyDelta::Lazy(layer) | AnyDelta::Unmade(layer, _) => layer,
            AnyDelta::OptionalCotangent(_) => {
                unreachable!("a conditional cotangent is resolved before it becomes a layer")
            }
        }
    }

    /// The same cotangent; a constant layer becomes a ready value.
    pub(super) fn at_hand(self) -> AnyDelta {
        match self {
            AnyDelta::Lazy(layer) => layer.op.as_constant().map_or(AnyDelta::Lazy(layer), AnyDelta::Ready),
            other => other,
        }
    }

    /// The value of this cotangent, which must have been evaluated.
    pub(crate) fn expect_ready(&self) -> &Value {
        match self {
            AnyDelta::Ready(value) => value,
            _ => unreachable!("the delta must have been evaluated"),
        }
    }

    /// Fuses the terms of a sum that only the sum reads.
    pub(crate) fn accumulated(&mut self) {
        if let AnyDelta::Lazy(layer) = self
            && let Some(sum) = accumulated(layer)
        {
            *layer = sum;
        }
    }

    /// The layers whose values this cotangent needs. If `late`, and the last operation can
    /// accumulate, these are its operands, and the step evaluates the operation into the weight.
    pub(crate) fn needs(&self, late: bool) -> &[NodeRef] {
        match self {
            AnyDelta::Lazy(layer) => match layer.accumulates().filter(|_| late) {
                Some(op) => op.operands(),
                None => std::slice::from_ref(layer),
            },
            _ => &[],
        }
    }

    /// The cotangent, given the values of [`needs`](AnyDelta::needs).
    pub(crate) fn given(self, late: bool, values: &mut impl Iterator<Item = Value>) -> AnyDelta {
        match self {
            AnyDelta::Lazy(layer) => match layer.accumulates().filter(|_| late) {
                Some(op) => {
                    let operands = op.operands().iter().map_while(|_| values.next()).collect();
                    AnyDelta::Unmade(layer, operands)
                }
                None => AnyDelta::Ready(values.next().expect("a value for each delta")),
            },
            other => other,
        }
    }

    /// The sum of some cotangents of `node`, in this order.
    pub(crate) fn sum(node: &Node, mut deltas: Vec<AnyDelta>) -> AnyDelta {
        if deltas.len() == 1 {
            return deltas.remove(0);
        }
        let layers = deltas.into_iter().map(|delta| delta.into_layer(node)).collect();
        AnyDelta::Lazy((node.vtable.sum_deltas)(layers))
    }
}

vec_pool::rows! {
    ARRIVED: Arrived, kept by threads in ARRIVED_OF_THIS_THREAD;
    DELTAS: (NodePtr, AnyDelta), kept by threads in DELTAS_OF_THIS_THREAD;
    DELTAS_OF_LAYERS: (NodeRef, AnyDelta);
}

/// An accumulator for each of so many slots, or more: all are empty.
#[inline]
pub(super) fn take_table(slots: usize) -> Vec<Arrived> {
    let mut table = vec_pool::spare();
    if table.len() < slots {
        extend(&mut table, slots);
    }
    table
}

#[cold]
fn extend(table: &mut Vec<Arrived>, slots: usize) {
    if slots > SMALL {
        *table = vec_pool::with_room(slots);
    }
    table.resize_with(slots.max(table.len()), Arrived::default);
}

/// Keeps a table for the next traversal. Its accumulators must be empty; they stay in it.
#[inline]
pub(super) fn keep_table(mut table: Vec<Arrived>) {
    debug_assert!(table.iter().all(|arrived| matches!(arrived, Arrived::Nothing)));
    if table.capacity() > SMALL {
        vec_pool::keep(&mut table);
    } else {
        Arrived::with_spare(|spare| spare.set(table));
    }
}

/// Cotangent accumulator: the cotangents that have arrived at a node.
#[derive(Default)]
pub(crate) enum Arrived {
    #[default]
    Nothing,
    F32(f32),
    F64(f64),
    /// The cotangent of the only consumer so far. Most nodes have one consumer.
    One(NodeRef),
    /// The running sum of ready values.
    Total(InlineBox<Total>),
    /// A list of several cotangents. Boxed, as it is the rare case and would enlarge the others.
    #[allow(clippy::box_collection, reason = "keeps the common case at two words")]
    Many(Box<Vec<AnyDelta>>),
}

/// The running sum of cotangents that were ready when they arrived.
pub(crate) struct Total {
    pub(super) value: Value,
    /// Whether it has more than one term. A sum is counted as one operation.
    pub(super) is_sum: bool,
    /// Whether a term is a part of a tensor. Then the sum must have started with zeros.
    pub(super) has_part: bool,
}

impl From<Scalar> for Arrived {
    #[inline(always)]
    fn from(number: Scalar) -> Self {
        match number {
            Scalar::F32(number) => Arrived::F32(number),
            Scalar::F64(number) => Arrived::F64(number),
        }
    }
}

impl Arrived {
    /// Adds a cotangent of an operand of this data type, in place if possible. Returns whether the
    /// accumulator became a sum.
    pub(super) fn add_in_place(&mut self, delta: AnyDelta, kind: &DataVTable) -> bool {
        if let (Arrived::Total(total), AnyDelta::Ready(value)) = (&mut *self, &delta)
            && (kind.add_delta)(&mut total.value, value)
        {
            return !std::mem::replace(&mut total.is_sum, true);
        }
        match (&*self, delta) {
            (Arrived::Nothing, AnyDelta::Ready(value @ Value(Repr::Any(_)))) => {
                *self = Arrived::Total(InlineBox::new(Total { value, is_sum: false, has_part: false }));
            }
            (_, delta) => self.add(delta),
        }
        false
    }

    #[inline]
    pub(crate) fn add(&mut self, delta: AnyDelta) {
        match (&mut *self, &delta) {
            (Arrived::F32(sum), AnyDelta::Ready(Value(Repr::F32(number)))) => *sum += number,
            (Arrived::F64(sum), AnyDelta::Ready(Value(Repr::F64(number)))) => *sum += number,
            (Arrived::Nothing, AnyDelta::Ready(Value(Repr::F32(number)))) => *self = Arrived::F32(*number),
            (Arrived::Nothing, AnyDelta::Ready(Value(Repr::F64(number)))) => *self = Arrived::F64(*number),
            (Arrived::Many(deltas), _) => deltas.push(delta),
            _ => match (self.take_one(), delta) {
                (None, AnyDelta::Lazy(layer)) => *self = Arrived::One(layer),
                (one, delta) => *self = Arrived::Many(Box::new(one.into_iter().chain([delta]).collect())),
            },
        }
    }

    /// Takes the cotangent, if it is a single one.
    #[inline]
    pub(super) fn take_one(&mut self) -> Option<AnyDelta> {
        match std::mem::take(self) {
            Arrived::F32(number) => Some(AnyDelta::Ready(Value(Repr::F32(number)))),
            Arrived::F64(number) => Some(AnyDelta::Ready(Value(Repr::F64(number)))),
            Arrived::One(layer) => Some(AnyDelta::Lazy(layer)),
            Arrived::Total(total) => Some(AnyDelta::Ready(total.into_inner().value)),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Takes all cotangents.
    pub(crate) fn take(&mut self) -> Vec<AnyDelta> {
        match self.take_one() {
            Some(one) => vec![one],
            None => match std::mem::take(self) {
                Arrived::Many(deltas) => *deltas,
                _ => Vec::new(),
            },
        }
    }
}
