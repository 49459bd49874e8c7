//! Accumulators: the sum of the cotangents that arrive at a node.

use crate::autodiff::cotangent::AnyDelta;
use crate::exec::vec_pool::{self, Row, SMALL};
use crate::graph::inline_box::InlineBox;
use crate::graph::node::DataVTable;
use crate::graph::node_ref::NodeRef;
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};

vec_pool::rows! {
    ACCUMULATORS: Accumulator, kept by threads in ACCUMULATORS_OF_THIS_THREAD;
}

/// An accumulator for each of so many slots, or more: all are empty.
#[inline]
pub(super) fn take_table(slots: usize) -> Vec<Accumulator> {
    let mut table = vec_pool::spare();
    if table.len() < slots {
        extend(&mut table, slots);
    }
    table
}

#[cold]
fn extend(table: &mut Vec<Accumulator>, slots: usize) {
    if slots > SMALL {
        *table = vec_pool::with_room(slots);
    }
    table.resize_with(slots.max(table.len()), Accumulator::default);
}

/// Keeps a table for the next traversal. Its accumulators must be empty; they stay in it.
#[inline]
pub(super) fn keep_table(mut table: Vec<Accumulator>) {
    if table.capacity() > SMALL {
        vec_pool::keep(&mut table);
    } else {
        Accumulator::with_spare(|spare| spare.set(table));
    }
}

/// The cotangents that have arrived at a node.
#[derive(Default)]
pub(crate) enum Accumulator {
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

impl From<Scalar> for Accumulator {
    #[inline(always)]
    fn from(number: Scalar) -> Self {
        match number {
            Scalar::F32(number) => Accumulator::F32(number),
            Scalar::F64(number) => Accumulator::F64(number),
        }
    }
}

impl Accumulator {
    /// Adds a cotangent of an operand of this data type, in place if possible. Returns whether the
    /// accumulator became a sum.
    pub(super) fn add_in_place(&mut self, delta: AnyDelta, kind: &DataVTable) -> bool {
        if let (Accumulator::Total(total), AnyDelta::Ready(value)) = (&mut *self, &delta)
            && (kind.add_delta)(&mut total.value, value)
        {
            return !std::mem::replace(&mut total.is_sum, true);
        }
        match (&*self, delta) {
            (Accumulator::Nothing, AnyDelta::Ready(value @ Value(Repr::Any(_)))) => {
                *self = Accumulator::Total(InlineBox::new(Total { value, is_sum: false, has_part: false }));
            }
            (_, delta) => self.add(delta),
        }
        false
    }

    #[inline]
    pub(crate) fn add(&mut self, delta: AnyDelta) {
        match (&mut *self, &delta) {
            (Accumulator::F32(sum), AnyDelta::Ready(Value(Repr::F32(number)))) => *sum += number,
            (Accumulator::F64(sum), AnyDelta::Ready(Value(Repr::F64(number)))) => *sum += number,
            (Accumulator::Nothing, AnyDelta::Ready(Value(Repr::F32(number)))) => *self = Accumulator::F32(*number),
            (Accumulator::Nothing, AnyDelta::Ready(Value(Repr::F64(number)))) => *self = Accumulator::F64(*number),
            (Accumulator::Many(deltas), _) => deltas.push(delta),
            _ => match (self.take_one(), delta) {
                (None, AnyDelta::Lazy(layer)) => *self = Accumulator::One(layer),
                (one, delta) => *self = Accumulator::Many(Box::new(one.into_iter().chain([delta]).collect())),
            },
        }
    }

    /// Takes the cotangent, if it is a single one.
    #[inline]
    pub(super) fn take_one(&mut self) -> Option<AnyDelta> {
        match std::mem::take(self) {
            Accumulator::F32(number) => Some(AnyDelta::Ready(Value(Repr::F32(number)))),
            Accumulator::F64(number) => Some(AnyDelta::Ready(Value(Repr::F64(number)))),
            Accumulator::One(layer) => Some(AnyDelta::Lazy(layer)),
            Accumulator::Total(total) => Some(AnyDelta::Ready(total.into_inner().value)),
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
                Accumulator::Many(deltas) => *deltas,
                _ => Vec::new(),
            },
        }
    }
}
