//! The identity as an operation, mostly with an effect.

use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::inline_box::InlineBox;
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use smallvec::smallvec;
use std::any::Any;
use std::panic::Location;

/// The effect of an operation whose value is that of its first operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A checkpoint boundary: a training pass discards the activations from which it was computed.
    Checkpoint,
    /// The commit of a step writes the value of the second operand into the third, a buffer, if
    /// this operation was evaluated.
    Update,
}

impl Effect {
    /// The operand of an update that is the new value.
    pub(crate) const NEW_VALUE: usize = 1;
    /// The operand of an update that is the buffer.
    pub(crate) const BUFFER: usize = 2;
}

struct Identity<const N: usize> {
    effect: Option<Effect>,
    operands: [NodeRef; N],
}

/// The first operand. The others are evaluated with it.
pub(crate) fn identity<const N: usize>(operands: [NodeRef; N]) -> NodeOp {
    NodeOp::Primitive(InlineBox::operation(Identity { effect: None, operands }))
}

/// The first operand, with an effect.
#[track_caller]
pub(crate) fn with_effect<T: Data, const N: usize>(effect: Effect, operands: [NodeRef; N]) -> Layer<T> {
    Layer::from_op(NodeOp::Primitive(InlineBox::operation(Identity { effect: Some(effect), operands })))
}

/// The same for data of the type of operand 0, written at this place.
pub(crate) fn with_effect_at<const N: usize>(
    effect: Effect,
    operands: [NodeRef; N],
    place: &'static Location<'static>,
) -> NodeRef {
    let kind = operands[0].vtable;
    NodeRef::of_type(kind, NodeOp::Primitive(InlineBox::operation(Identity { effect: Some(effect), operands })), place)
}

impl<const N: usize> AnyPrimitive for Identity<N> {
    fn name(&self) -> &'static str {
        match self.effect {
            Some(Effect::Checkpoint) => "checkpoint",
            Some(Effect::Update) => "updating",
            None => "identity",
        }
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn operands(&self) -> &[NodeRef] {
        &self.operands
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        Ok(operands[0].clone())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn is_pure(&self) -> bool {
        self.effect.is_none()
    }

    fn is_identity(&self) -> bool {
        self.effect.is_none()
    }

    /// The value is that of the first operand.
    fn is_by_rows(&self, has_rows: &[bool], _: &[&Value], _: &Value) -> bool {
        has_rows[0]
    }

    fn bound_to(&self, operands: &[NodeRef]) -> Option<InlineBox<dyn AnyPrimitive>> {
        match self.effect {
            Some(Effect::Checkpoint) => None,
            Some(Effect::Update) => {
                Some(InlineBox::operation(Identity { effect: None, operands: [operands[0].clone()] }))
            }
            None => {
                let operands = <[NodeRef; N]>::try_from(operands.to_vec()).ok()?;
                Some(InlineBox::operation(Identity { effect: None, operands }))
            }
        }
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let mut deltas = smallvec![None; N];
        deltas[0] = Some(at.delta);
        deltas
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        along.tangents[0].clone()
    }

    fn effect(&self) -> Option<Effect> {
        self.effect
    }
}
