//! The evaluated delta of a weight, and plain gradient descent with it.

use crate::autodiff::cotangent::AnyDelta;
use crate::error::Result;
use crate::graph::data::Trainable;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::OperandVec;
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};
use crate::graph::variable::Variable;
use std::borrow::Cow;

/// The evaluated delta of a weight.
#[derive(Clone, Copy)]
pub(crate) enum StepDelta<'a> {
    Value(&'a Value),
    /// See [`AnyDelta::Unmade`].
    Unmade(&'a NodeRef, &'a [Value]),
}

/// An element of a table of deltas.
pub(crate) trait Evaluated {
    fn evaluated(&self) -> Option<StepDelta<'_>>;
}

impl Evaluated for AnyDelta {
    fn evaluated(&self) -> Option<StepDelta<'_>> {
        match self {
            AnyDelta::Ready(value) => Some(StepDelta::Value(value)),
            AnyDelta::Unmade(layer, operands) => Some(StepDelta::Unmade(layer, operands)),
            AnyDelta::Lazy(_) | AnyDelta::OptionalCotangent(_) => None,
        }
    }
}

impl Evaluated for Value {
    #[inline(always)]
    fn evaluated(&self) -> Option<StepDelta<'_>> {
        Some(StepDelta::Value(self))
    }
}

impl StepDelta<'_> {
    /// Calls `with` with the new value by plain gradient descent, if the weight is a number. This
    /// cannot fail and needs no dynamic dispatch.
    #[inline(always)]
    pub(super) fn descended(&self, variable: &Variable, rate: f64, with: impl FnOnce(Value)) -> bool {
        let StepDelta::Value(delta) = self else { return false };
        // Each type has its own call: a value of either type would go through memory.
        match (variable.number(), &delta.0) {
            (Some(Scalar::F32(mut weight)), Repr::F32(delta)) => {
                weight.descend(rate, delta);
                with(Value(Repr::F32(weight)));
            }
            (Some(Scalar::F64(mut weight)), Repr::F64(delta)) => {
                weight.descend(rate, delta);
                with(Value(Repr::F64(weight)));
            }
            _ => return false,
        }
        true
    }

    /// Whether plain gradient descent can be applied with this delta.
    pub(super) fn supports_sgd(self, variable: &Variable) -> bool {
        match self {
            StepDelta::Value(delta) => variable.weight().supports_sgd(variable, delta),
            StepDelta::Unmade(layer, operands) => layer.accumulates().is_some_and(|op| {
                let operands: OperandVec<&Value> = operands.iter().collect();
                if op.is_pure() {
                    variable.look(|value| op.can_accumulate(&operands, value))
                } else {
                    op.can_accumulate(&operands, &variable.read())
                }
            }),
        }
    }

    /// Whether the update is built-in code, which cannot fail midway.
    pub(super) fn is_sgd_in_place(self, variable: &Variable) -> bool {
        let is_pure = |layer: &NodeRef| layer.accumulates().is_some_and(|op| op.is_pure());
        variable.weight().is_updated_in_place() && !matches!(self, StepDelta::Unmade(layer, _) if !is_pure(layer))
    }

    /// Applies the update in place. The result of a deferred delta is accumulated into the weight
    /// without a temporary.
    pub(super) fn sgd_in_place(self, variable: &Variable, rate: f64) {
        match self {
            StepDelta::Value(delta) => variable.weight().sgd_in_place(variable, rate, delta),
            StepDelta::Unmade(layer, operands) => variable.change(|value| accumulate(layer, operands, rate, value)),
        }
    }

    /// The value after the update.
    pub(super) fn sgd_copy(self, variable: &Variable, rate: f64) -> Value {
        match self {
            StepDelta::Value(delta) => variable.weight().sgd_copy(variable, rate, delta),
            StepDelta::Unmade(layer, operands) => {
                let mut value = variable.read();
                accumulate(layer, operands, rate, &mut value);
                value
            }
        }
    }

    /// The value of this delta.
    pub(super) fn value(&self) -> Result<Cow<'_, Value>> {
        match self {
            StepDelta::Value(value) => Ok(Cow::Borrowed(value)),
            StepDelta::Unmade(layer, operands) => {
                let op = layer.accumulates().expect("a deferred delta is an operation");
                let value = op.value(&operands.iter().collect::<OperandVec<_>>());
                value.map(Cow::Owned).map_err(|error| error.at(op.name(), layer.site()))
            }
        }
    }

    /// The estimated time of the update, in nanoseconds.
    pub(super) fn cost(self) -> f64 {
        match self {
            StepDelta::Value(Value(Repr::F32(_) | Repr::F64(_))) => 10.0,
            StepDelta::Value(_) => 1_000.0,
            StepDelta::Unmade(layer, operands) => {
                layer.accumulates().map_or(0.0, |op| op.cost(&operands.iter().collect::<OperandVec<_>>()))
            }
        }
    }
}

/// Adds the result of a deferred delta, times the negated rate, to a value.
fn accumulate(layer: &NodeRef, operands: &[Value], rate: f64, value: &mut Value) {
    let op = layer.accumulates().expect("the operation accumulates");
    op.accumulate(&operands.iter().collect::<OperandVec<_>>(), -rate, value);
}
