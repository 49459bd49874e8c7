//! A type-erased primitive with its operands, as stored in a node.

use crate::api::primitive::{Along, At, Now, Others, Primitive, sealed};
use crate::autodiff::immediate::Sums;
use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::layer::Layer;
use crate::graph::node::Node;
use crate::graph::node_ref::AnyLayer;
use crate::graph::value::Value;
use smallvec::SmallVec;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A list with one element per operand. Most operations have at most four.
pub(crate) type Few<T> = SmallVec<[T; 4]>;

/// A type-erased primitive with its operands. The methods are those of [`Primitive`].
pub(crate) trait AnyPrimitive: Send + Sync {
    fn name(&self) -> &'static str;
    fn operands(&self) -> &[AnyLayer];
    /// The primitive itself, without its operands.
    fn op(&self) -> &dyn Any;

    /// The name, for errors and records. A panic in the user's `name` must not hide the error.
    fn name_or_panic(&self) -> &'static str {
        catch_unwind(AssertUnwindSafe(|| self.name())).unwrap_or("operation")
    }

    fn value(&self, operands: &[&Value]) -> Result<Value>;
    fn cost(&self, operands: &[&Value]) -> f64;
    fn pullback(&self, at: AnyAt<'_>) -> Few<Option<AnyLayer>>;
    fn pushforward(&self, along: AnyAlong<'_>) -> Option<AnyLayer>;

    /// See [`Primitive::pull_back_now`].
    fn pull_back_now(&self, at: AnyNow<'_>, sums: &mut Sums<'_>) -> bool {
        let _ = (at, sums);
        false
    }

    /// Whether a step can end with it: see [`Primitive::ACCUMULATES`].
    fn accumulates(&self) -> bool {
        false
    }

    /// See [`Primitive::IS_PLAIN`].
    fn is_plain(&self) -> bool {
        false
    }

    /// See [`Primitive::CAN_WAIT`].
    fn can_wait(&self) -> bool {
        false
    }

    fn slopes(&self, operands: &[&Value]) -> Option<Few<Option<AnyLayer>>> {
        let _ = operands;
        None
    }

    fn value_beside(&self, operands: &[&Value], others: &[Value]) -> Result<Value> {
        let _ = others;
        self.value(operands)
    }

    /// See [`Primitive::IS_SUM`].
    fn is_sum(&self) -> bool {
        false
    }

    fn can_accumulate(&self, operands: &[&Value], to: &Value) -> bool {
        let _ = (operands, to);
        false
    }

    fn accumulate(&self, operands: &[&Value], factor: f64, to: &mut Value) {
        let _ = (operands, factor, to);
    }

    /// The sum of the values of these operations, if all are of this type: see
    /// [`Primitive::sum_of_values`].
    fn sum_of_values(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<Value> {
        let _ = terms;
        None
    }

    /// The estimated time of `sum_of_values`, in nanoseconds: see [`Primitive::cost_of_sum`].
    fn cost_of_sum(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<f64> {
        let _ = terms;
        None
    }

    /// The buffer update that the commit of a step writes if this was evaluated.
    fn update(&self) -> Option<UpdateOf<'_>> {
        None
    }

    /// Whether this is a checkpoint boundary: a training pass discards the activations from which
    /// it was computed.
    fn is_mark(&self) -> bool {
        false
    }

    /// Whether its rules are built-in. Layers that they build then have the source location of the
    /// operation, not that of the rule.
    fn is_own(&self) -> bool {
        true
    }
}

/// The update of a buffer.
pub(crate) struct UpdateOf<'a> {
    /// The index of the operand that is the new value.
    pub(crate) new: usize,
    pub(crate) buffer: &'a AnyLayer,
}

pub(crate) struct AnyAt<'a> {
    pub(crate) values: &'a [&'a Value],
    pub(crate) output: &'a AnyLayer,
    pub(crate) value: &'a Value,
    pub(crate) delta: AnyLayer,
}

pub(crate) struct AnyNow<'a> {
    pub(crate) node: &'a Node,
    pub(crate) operands: &'a [AnyLayer],
    pub(crate) values: &'a [&'a Value],
    pub(crate) value: &'a Value,
    pub(crate) delta: &'a Value,
}

pub(crate) struct AnyAlong<'a> {
    pub(crate) operands: &'a [AnyLayer],
    pub(crate) values: &'a [&'a Value],
    pub(crate) output: &'a AnyLayer,
    pub(crate) value: &'a Value,
    pub(crate) tangents: &'a [Option<AnyLayer>],
}

pub(crate) struct Applied<P: Primitive> {
    op: P,
    operands: <P::Operands as sealed::Operands>::Erased,
}

impl<P: Primitive> Applied<P> {
    pub(crate) fn new(op: P, operands: P::Operands) -> Self {
        Applied { op, operands: sealed::Operands::into_any(operands) }
    }
}

impl<P: Primitive> AnyPrimitive for Applied<P> {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn operands(&self) -> &[AnyLayer] {
        self.operands.as_ref()
    }

    fn op(&self) -> &dyn Any {
        &self.op
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        self.op.value(<P::Operands as sealed::Operands>::values(operands)).map(Data::into_value)
    }

    fn cost(&self, operands: &[&Value]) -> f64 {
        self.op.cost(<P::Operands as sealed::Operands>::values(operands))
    }

    fn accumulates(&self) -> bool {
        P::ACCUMULATES
    }

    fn is_plain(&self) -> bool {
        P::IS_PLAIN
    }

    fn can_wait(&self) -> bool {
        P::CAN_WAIT
    }

    fn slopes(&self, operands: &[&Value]) -> Option<Few<Option<AnyLayer>>> {
        let slopes = self.op.slopes(<P::Operands as sealed::Operands>::values(operands))?;
        Some(<P::Operands as sealed::Operands>::deltas(slopes))
    }

    fn value_beside(&self, operands: &[&Value], others: &[Value]) -> Result<Value> {
        let operands = <P::Operands as sealed::Operands>::values(operands);
        self.op.value_beside(operands, Others(others)).map(Data::into_value)
    }

    fn is_sum(&self) -> bool {
        P::IS_SUM
    }

    fn can_accumulate(&self, operands: &[&Value], to: &Value) -> bool {
        let fits = |to| self.op.can_accumulate(<P::Operands as sealed::Operands>::values(operands), to);
        to.try_get::<P::Output>().is_some_and(fits)
    }

    fn accumulate(&self, operands: &[&Value], factor: f64, to: &mut Value) {
        let operands = <P::Operands as sealed::Operands>::values(operands);
        to.change(|to: &mut P::Output| self.op.accumulate(operands, factor, to));
    }

    fn sum_of_values(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<Value> {
        P::sum_of_values(&typed::<P>(terms)?).map(Data::into_value)
    }

    fn cost_of_sum(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<f64> {
        P::cost_of_sum(&typed::<P>(terms)?)
    }

    fn pullback(&self, at: AnyAt<'_>) -> Few<Option<AnyLayer>> {
        let deltas = self.op.pullback(&At {
            operands: &<P::Operands as sealed::Operands>::from_any(self.operands()),
            values: <P::Operands as sealed::Operands>::values(at.values),
            output: &Layer::from_any(at.output.clone()),
            value: at.value.get(),
            delta: &Layer::from_any(at.delta),
        });
        <P::Operands as sealed::Operands>::deltas(deltas)
    }

    fn pull_back_now(&self, at: AnyNow<'_>, sums: &mut Sums<'_>) -> bool {
        let now = Now {
            values: <P::Operands as sealed::Operands>::values(at.values),
            value: at.value.get(),
            delta: at.delta.get(),
            any: &at,
        };
        self.op.pull_back_now(&now, sums)
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<AnyLayer> {
        let tangent = self.op.pushforward(&Along {
            operands: &<P::Operands as sealed::Operands>::from_any(along.operands),
            values: <P::Operands as sealed::Operands>::values(along.values),
            output: &Layer::from_any(along.output.clone()),
            value: along.value.get(),
            tangents: &<P::Operands as sealed::Operands>::from_deltas(along.tangents),
            any: &along,
        });
        tangent.map(Layer::into_any)
    }

    fn is_own(&self) -> bool {
        P::IS_BUILT_IN
    }
}

/// A typed operation, and the values of its operands.
type Typed<'a, P> = (&'a P, <<P as Primitive>::Operands as sealed::Operands>::Values<'a>);

/// The typed operations, if all are of type `P` and `P` accumulates.
fn typed<'a, P: Primitive>(terms: &[(&'a dyn AnyPrimitive, &'a [&'a Value])]) -> Option<Vec<Typed<'a, P>>> {
    if !P::ACCUMULATES {
        return None; // `sum_of_values` is not instantiated for these
    }
    let mut typed = Vec::with_capacity(terms.len());
    for (op, operands) in terms {
        typed.push((op.op().downcast_ref()?, <P::Operands as sealed::Operands>::values(operands)));
    }
    Some(typed)
}
