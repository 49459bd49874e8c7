//! The deltas of the results of a call, or of a group of calls, as one delta.

use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::delta::Delta;
use crate::graph::inline_box::InlineBox;
use crate::graph::layer::Layer;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use crate::plan::program::number;
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::panic::Location;

/// The deltas of results, as far as there are any: which result, its delta and its type.
#[derive(Clone)]
pub(crate) struct CallDelta(SmallVec<[(u32, Value, &'static DataVTable); 2]>);

impl CallDelta {
    pub(super) fn of(which: usize, delta: Value, kind: &'static DataVTable) -> CallDelta {
        CallDelta(smallvec![(number(which), delta, kind)])
    }

    pub(super) fn all(deltas: impl Iterator<Item = (Value, &'static DataVTable)>) -> CallDelta {
        CallDelta((0..).zip(deltas).map(|(which, (delta, kind))| (which, delta, kind)).collect())
    }

    /// The delta of a result.
    pub(super) fn get(&self, which: usize) -> Option<&Value> {
        self.0.iter().find(|(known, ..)| *known as usize == which).map(|(_, delta, _)| delta)
    }

    /// The deltas, each with its result.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &Value)> {
        self.0.iter().map(|(which, delta, _)| (*which as usize, delta))
    }
}

impl Data for CallDelta {
    type Delta = CallDelta;

    fn one(&self) -> CallDelta {
        self.clone()
    }
}

impl Delta for CallDelta {
    #[track_caller]
    fn sum(terms: Vec<Layer<CallDelta>>) -> Layer<CallDelta> {
        let place = Location::caller();
        let mut arrived: Vec<(usize, Vec<NodeRef>)> = Vec::new();
        for (which, delta) in terms.iter().flat_map(|term| components(term.any())) {
            match arrived.iter_mut().find(|(known, _)| *known == which) {
                Some((_, terms)) => terms.push(delta),
                None => arrived.push((which, vec![delta])),
            }
        }
        let sum = |(which, mut terms): (usize, Vec<NodeRef>)| match terms.len() {
            1 => (which, terms.remove(0)),
            _ => (which, (terms[0].vtable.sum_deltas)(terms)),
        };
        Layer::from_any(packed(arrived.into_iter().map(sum).collect(), place))
    }

    fn add_in_place(&mut self, other: &CallDelta) -> bool {
        if other.0.iter().any(|(which, ..)| self.get(*which as usize).is_some()) {
            return false;
        }
        self.0.extend(other.0.iter().cloned());
        true
    }

    fn scale(layer: &Layer<CallDelta>, factor: f64) -> Layer<CallDelta> {
        let scaled = |(which, delta): (usize, NodeRef)| (which, (delta.vtable.scale_delta)(&delta, factor));
        Layer::from_any(packed(components(layer.any()).into_iter().map(scaled).collect(), layer.any().place))
    }

    fn squared_norm(&self) -> f64 {
        self.0.iter().map(|(_, delta, kind)| (kind.squared_norm)(delta)).sum()
    }
}

/// The deltas of results, as layers.
pub(super) type Components = SmallVec<[(usize, NodeRef); 2]>;

/// The deltas that a layer of [`CallDelta`] consists of. Such a layer is a constant, or was built
/// by [`packed`].
pub(super) fn components(layer: &NodeRef) -> Components {
    match &layer.op {
        NodeOp::Primitive(op) => match op.op().downcast_ref::<Pack>() {
            Some(pack) => pack.results.iter().copied().zip(pack.deltas.iter().cloned()).collect(),
            None => unreachable!("deltas of a call are packed"),
        },
        op => {
            let value = op.as_constant().expect("deltas of a call are packed, or a constant");
            let constant = |(which, delta, kind): &(u32, Value, &'static DataVTable)| {
                (*which as usize, (kind.delta_layer)(NodeOp::constant(delta.clone()), layer.place))
            };
            value.get::<CallDelta>().0.iter().map(constant).collect()
        }
    }
}

/// A layer of these deltas.
pub(super) fn packed(deltas: Components, place: &'static Location<'static>) -> NodeRef {
    let (results, deltas) = deltas.into_iter().unzip();
    NodeRef::new::<CallDelta>(NodeOp::Primitive(InlineBox::operation(Pack { results, deltas })), place)
}

/// Deltas of results as one layer.
struct Pack {
    results: SmallVec<[usize; 2]>,
    deltas: SmallVec<[NodeRef; 2]>,
}

impl AnyPrimitive for Pack {
    fn name(&self) -> &'static str {
        "deltas of a call"
    }

    fn operands(&self) -> &[NodeRef] {
        &self.deltas
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, deltas: &[&Value]) -> Result<Value> {
        let each = self.results.iter().zip(deltas).zip(&self.deltas);
        let each = each.map(|((&which, &delta), node)| (number(which), delta.clone(), node.vtable));
        Ok(CallDelta(each.collect()).into_value())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let deltas = components(&at.delta);
        let of = |&which: &usize| deltas.iter().find(|(known, _)| *known == which).map(|(_, delta)| delta.clone());
        self.results.iter().map(of).collect()
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        let tangents = self.results.iter().zip(along.tangents);
        let present = tangents.filter_map(|(&which, tangent)| Some((which, tangent.clone()?)));
        Some(packed(present.collect(), along.output.place))
    }
}
