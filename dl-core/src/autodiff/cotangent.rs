//! Deltas, and what has arrived of them at a node.

use crate::autodiff::accumulate::accumulated;
use crate::autodiff::optional_cotangent::Perhaps;
use crate::graph::inline_box::Kept;
use crate::graph::node::{DataKind, Expression, Node};
use crate::graph::node_ref::AnyLayer;
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};

/// The delta of some node, computed or yet to be computed.
#[derive(Clone)]
pub(crate) enum AnyDelta {
    Ready(Value),
    Lazy(AnyLayer),
    /// Not made, and not going to be: an operation whose result goes into the weight, and its
    /// operands.
    Unmade(AnyLayer, Vec<Value>),
    /// Known when a segment has been evaluated again: only on the way to the sum of what arrives
    /// somewhere.
    Perhaps(Box<Perhaps>),
}

impl AnyDelta {
    /// This delta of `node`, as a layer.
    pub(crate) fn into_layer(self, node: &Node) -> AnyLayer {
        match self {
            AnyDelta::Ready(value) => (node.kind_of_data.delta_layer)(Expression::constant(value), node.place),
            AnyDelta::Lazy(layer) | AnyDelta::Unmade(layer, _) => layer,
            AnyDelta::Perhaps(_) => unreachable!("what may arrive from a segment is summed when it is known"),
        }
    }

    /// The same delta, which is ready if it is a constant.
    pub(super) fn at_hand(self) -> AnyDelta {
        match self {
            AnyDelta::Lazy(layer) => layer.expression.as_constant().map_or(AnyDelta::Lazy(layer), AnyDelta::Ready),
            other => other,
        }
    }

    /// This delta, which has been computed.
    pub(crate) fn expect_ready(&self) -> &Value {
        match self {
            AnyDelta::Ready(value) => value,
            _ => unreachable!("the delta was to be computed before"),
        }
    }

    /// The same delta, with the terms of a sum that only the sum wants left to it.
    pub(crate) fn accumulated(&mut self) {
        if let AnyDelta::Lazy(layer) = self
            && let Some(sum) = accumulated(layer)
        {
            *layer = sum;
        }
    }

    /// The layers whose values it takes. For a step that takes `late` deltas these are the
    /// operands, if the last operation can be left to it.
    pub(crate) fn needs(&self, late: bool) -> &[AnyLayer] {
        match self {
            AnyDelta::Lazy(layer) => match layer.accumulates().filter(|_| late) {
                Some(op) => op.operands(),
                None => std::slice::from_ref(layer),
            },
            _ => &[],
        }
    }

    /// The same delta, when these values are there.
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

    /// The sum of some deltas of `node`, in their order.
    pub(crate) fn sum(node: &Node, mut deltas: Vec<AnyDelta>) -> AnyDelta {
        if deltas.len() == 1 {
            return deltas.remove(0);
        }
        let layers = deltas.into_iter().map(|delta| delta.into_layer(node)).collect();
        AnyDelta::Lazy((node.kind_of_data.sum_deltas)(layers))
    }
}

/// What has arrived at a node so far.
#[derive(Default)]
pub(crate) enum Arrived {
    #[default]
    Nothing,
    F32(f32),
    F64(f64),
    /// Most nodes have one consumer.
    One(AnyLayer),
    /// Values, added up as they come.
    Total(Kept<Total>),
    /// Not boxed unless there is more than that: most nodes never see it.
    #[allow(clippy::box_collection, reason = "keeps the common case at two words")]
    Many(Box<Vec<AnyDelta>>),
}

/// The sum of some deltas that were there when they arrived.
pub(crate) struct Total {
    pub(super) value: Value,
    /// Whether there was something to be added. What is not counted otherwise is counted as the one
    /// operation that a sum is.
    pub(super) is_sum: bool,
    /// Whether there is a part among the terms. Then it was begun with zeros.
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
    /// Adds a delta for an operand of this kind, in place if that is possible. Says whether this
    /// has made a sum.
    pub(super) fn add_in_place(&mut self, delta: AnyDelta, kind: &DataKind) -> bool {
        if let (Arrived::Total(total), AnyDelta::Ready(value)) = (&mut *self, &delta)
            && (kind.add_delta)(&mut total.value, value)
        {
            return !std::mem::replace(&mut total.is_sum, true);
        }
        match (&*self, delta) {
            (Arrived::Nothing, AnyDelta::Ready(value @ Value(Repr::Any(_)))) => {
                *self = Arrived::Total(Kept::new(Total { value, is_sum: false, has_part: false }));
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

    /// Takes what has arrived, if it is one delta.
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

    /// Takes all that has arrived.
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
