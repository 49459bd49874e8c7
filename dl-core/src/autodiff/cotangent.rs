//! Cotangents (deltas) of any type, evaluated or not.

use crate::autodiff::fused_sum::accumulated;
use crate::autodiff::optional_cotangent::OptionalCotangent;
use crate::exec::vec_pool;
use crate::graph::node::{Node, NodeOp};
use crate::graph::node_ref::{NodePtr, NodeRef};
use crate::graph::value::Value;

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
    DELTAS: (NodePtr, Value), kept by threads in DELTAS_OF_THIS_THREAD;
    DELTAS_OF_LAYERS: (NodeRef, AnyDelta);
}
