//! Layers of compiled functions that have no value.

use crate::error::{Error, Result};
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use std::any::Any;
use std::panic::Location;

/// A layer of this type for a call that cannot be compiled.
pub(crate) fn refused(kind: &'static DataVTable, why: &str, place: &'static Location<'static>) -> NodeRef {
    NodeRef::of_type(kind, NodeOp::Primitive(InlineBox::operation(Failed(Error::invalid(why)))), place)
}

/// An operation without operands that fails: a delta that could not be built, a result of a call that
/// cannot be compiled, or a placeholder, which is never evaluated.
pub(super) struct Failed(pub(super) Error);

impl Failed {
    /// A delta of a value of this type.
    pub(super) fn layer(kind: &'static DataVTable, error: &Error, place: &'static Location<'static>) -> NodeRef {
        (kind.delta_layer)(NodeOp::Primitive(InlineBox::operation(Failed(error.clone()))), place)
    }
}

impl AnyPrimitive for Failed {
    fn name(&self) -> &'static str {
        "compiled function"
    }

    fn operands(&self) -> &[NodeRef] {
        &[]
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, _: &[&Value]) -> Result<Value> {
        Err(self.0.clone())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn pullback(&self, _: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        OperandVec::new()
    }

    fn pushforward(&self, _: AnyAlong<'_>) -> Option<NodeRef> {
        None
    }
}
