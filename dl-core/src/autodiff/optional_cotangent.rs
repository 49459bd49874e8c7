//! Conditional cotangents: a checkpoint segment may or may not produce them.
//!
//! The rule of an operation decides which operands receive a cotangent. It runs after the values
//! that it reads have been rematerialized. Until then the accumulator of a node is a list of
//! conditional and other cotangents, in traversal order. Their sum is emitted when it is known
//! which of them exist, so it is the same sum as without checkpoints.

use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::derivatives;
use crate::autodiff::remat_group::{Group, Outputs};
use crate::error::Result;
use crate::exec::extract::ExtractAll;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::node::{DynamicBody, NodeOp, Outcome};
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use crate::graph::value::Value;
use dl_parallel::sync::{AtomicBool, Ordering};
use std::sync::Arc;

/// The cotangent that a group may pass along one edge.
#[derive(Clone)]
pub(crate) struct OptionalCotangent {
    pub(super) group: Arc<Group>,
    /// The layer with the outputs of the group as its value.
    pub(super) layer: NodeRef,
    pub(super) slot: u32,
}

/// The cotangents that exist, in the same order. Waits until that is known.
pub(super) async fn present(deltas: &[AnyDelta]) -> Result<Vec<AnyDelta>> {
    let mut unknown: Vec<NodeRef> = Vec::new();
    for layer in deltas.iter().filter_map(unknown_before) {
        if unknown.last().is_none_or(|last| last.address() != layer.address()) {
            unknown.push(layer.clone());
        }
    }
    let addresses: Vec<usize> = unknown.iter().map(|layer| layer.address()).collect();
    let values: Vec<Value> = if unknown.is_empty() { Vec::new() } else { ExtractAll::new(unknown).await? };
    let mut at = 0;
    let known = deltas.iter().filter_map(|delta| {
        if let Some(layer) = unknown_before(delta)
            && addresses[at] != layer.address()
        {
            at += 1;
        }
        match delta {
            AnyDelta::OptionalCotangent(perhaps) => values[at].get::<Outputs>().slot(perhaps.slot),
            AnyDelta::Lazy(layer) if layer.is_absent() => None,
            known => Some(known.clone()),
        }
    });
    Ok(known.collect())
}

/// The layer that must be evaluated to know whether the cotangent exists.
fn unknown_before(delta: &AnyDelta) -> Option<&NodeRef> {
    match delta {
        AnyDelta::OptionalCotangent(perhaps) => Some(&perhaps.layer),
        AnyDelta::Lazy(layer) if layer.may_be_absent() => Some(layer),
        _ => None,
    }
}

/// `factor` times the sum of those of these cotangents of `node` that will exist. If none exists,
/// the sum does not exist either.
pub(crate) fn sum(node: &NodeRef, deltas: Vec<AnyDelta>, factor: f64) -> NodeRef {
    let sum = Sum { node: node.clone(), deltas: deltas.into(), factor, absent: Arc::new(AtomicBool::new(false)) };
    (node.vtable.delta_layer)(NodeOp::Dynamic(InlineBox::body(sum)), node.place)
}

struct Sum {
    node: NodeRef,
    deltas: Arc<[AnyDelta]>,
    factor: f64,
    /// Whether it resolved to none.
    absent: Arc<AtomicBool>,
}

impl DynamicBody for Sum {
    fn run(&self) -> InlineFuture<Result<Outcome>> {
        let (node, deltas, absent, factor) = (self.node.clone(), self.deltas.clone(), self.absent.clone(), self.factor);
        InlineBox::future(async move {
            let present = present(&deltas).await?;
            // Release: synchronizes with the Acquire load in `is_absent`.
            absent.store(present.is_empty(), Ordering::Release);
            if present.is_empty() {
                return Ok(Outcome::Layer(derivatives::zero(&node).await?));
            }
            let sum = AnyDelta::sum(&node, present).into_layer(&node);
            Ok(Outcome::Layer(if factor == 1.0 { sum } else { (node.vtable.scale_delta)(&sum, factor) }))
        })
    }

    fn name(&self) -> &'static str {
        "sum of deltas"
    }

    fn position(&self) -> Position {
        Position::in_body(0)
    }

    fn is_absent(&self) -> bool {
        self.absent.load(Ordering::Acquire)
    }

    fn may_be_absent(&self) -> bool {
        true
    }
}
