//! Deltas that a segment may hand on, once it has been evaluated again.
//!
//! Which operands an operation gives a delta to is up to its rule, which runs when the values are there. Until then, what arrives at a node is a
//! list of such deltas and of others, in the order in which the walk met them; the sum is written when it is known which of them there are.
//! So it is the sum that would have been written without marks.

use super::group::{Group, Outputs};
use crate::deferred::BoxFuture;
use crate::error::Result;
use crate::extract::{ExtractAll, ExtractValue};
use crate::node::{AnyLayer, Expression, Kept, Node, Outcome, Recipe};
use crate::reverse::{self, AnyDelta};
use crate::seed::Position;
use crate::sync::{AtomicBool, Ordering};
use crate::value::Value;
use std::sync::Arc;

/// What a group hands on along one edge, if anything.
#[derive(Clone)]
pub(crate) struct Perhaps {
    pub(super) group: Arc<Group>,
    /// The layer whose value are the outputs of the group.
    pub(super) layer: AnyLayer,
    pub(super) slot: u32,
}

/// Those of these deltas that there are, in their order. Waits for the groups.
pub(super) async fn present(deltas: &[AnyDelta]) -> Result<Vec<AnyDelta>> {
    let mut groups: Vec<AnyLayer> = Vec::new();
    for delta in deltas {
        if let AnyDelta::Perhaps(perhaps) = delta
            && groups.last().is_none_or(|last| last.address() != perhaps.layer.address())
        {
            groups.push(perhaps.layer.clone());
        }
    }
    let addresses: Vec<usize> = groups.iter().map(|group| group.address()).collect();
    let outputs: Vec<Value> = if groups.is_empty() { Vec::new() } else { ExtractAll::new(groups).await? };
    let mut at = 0;
    let known = deltas.iter().filter_map(|delta| match delta {
        AnyDelta::Perhaps(perhaps) => {
            if addresses[at] != perhaps.layer.address() {
                at += 1;
            }
            outputs[at].get::<Outputs>().slot(perhaps.slot)
        }
        known => Some(known.clone()),
    });
    Ok(known.collect())
}

/// The sum of those of these deltas of `node` that there will be.
pub(crate) fn sum(node: &AnyLayer, deltas: Vec<AnyDelta>) -> AnyLayer {
    let sum = Sum { node: node.clone(), deltas: deltas.into(), absent: Arc::new(AtomicBool::new(false)) };
    (node.kind_of_data.delta_layer)(Expression::Dynamic(Kept::body(sum)), node.place)
}

struct Sum {
    node: AnyLayer,
    deltas: Arc<[AnyDelta]>,
    /// Whether there turned out to be none.
    absent: Arc<AtomicBool>,
}

impl Recipe for Sum {
    fn run(&self) -> BoxFuture<Result<Outcome>> {
        let (node, deltas, absent) = (self.node.clone(), self.deltas.clone(), self.absent.clone());
        Box::pin(async move {
            let present = present(&deltas).await?;
            absent.store(present.is_empty(), Ordering::Release);
            Ok(Outcome::Layer(match present.is_empty() {
                false => AnyDelta::sum(&node, present).into_layer(&node),
                true => zero(&node, &ExtractValue::new(node.clone()).await?)?,
            }))
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

/// The sum of multiples of deltas of `node`, some of which may turn out to be absent; if all are, so is the sum.
pub(crate) fn combined(node: &AnyLayer, terms: Vec<(AnyLayer, f64)>) -> AnyLayer {
    let combined = Combined { node: node.clone(), terms: terms.into(), absent: Arc::new(AtomicBool::new(false)) };
    (node.kind_of_data.delta_layer)(Expression::Dynamic(Kept::body(combined)), node.place)
}

struct Combined {
    node: AnyLayer,
    terms: Arc<[(AnyLayer, f64)]>,
    absent: Arc<AtomicBool>,
}

impl Recipe for Combined {
    fn run(&self) -> BoxFuture<Result<Outcome>> {
        let (node, terms, absent) = (self.node.clone(), self.terms.clone(), self.absent.clone());
        Box::pin(async move {
            let values = ExtractAll::new(terms.iter().map(|(layer, _)| layer.clone()).collect()).await?;
            absent.store(terms.iter().all(|(layer, _)| layer.is_absent()), Ordering::Release);
            let scale = node.kind_of_data.scale_delta;
            let mut there: Vec<AnyLayer> = Vec::new();
            for (layer, factor) in terms.iter().filter(|(layer, _)| !layer.is_absent()) {
                there.push(if *factor == 1.0 { layer.clone() } else { scale(layer, *factor) });
            }
            drop(values);
            Ok(Outcome::Layer(match there.len() {
                0 => terms[0].0.clone(),
                1 => there.remove(0),
                _ => (node.kind_of_data.sum_deltas)(there),
            }))
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

fn zero(node: &Node, value: &Value) -> Result<AnyLayer> {
    let one = AnyDelta::Ready(reverse::one(node, value)?).into_layer(node);
    Ok((node.kind_of_data.scale_delta)(&one, 0.0))
}
