//! Operations of user code and of the library, applied to their operands: their type erasure.

use crate::api::built_in::{BuiltIn, CotangentSink, Immediate, Others};
use crate::api::primitive::{Along, At, Primitive, sealed::Operands};
use crate::error::Result;
use crate::graph::basic_block::BlockOp;
use crate::graph::data::Data;
use crate::graph::delta::check_deltas;
use crate::graph::inline_box::InlineBox;
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{self, AnyAlong, AnyAt, AnyImmediate, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use std::any::Any;

/// An operation and its operands.
pub(crate) struct Applied<P: Primitive, const IS_BUILT_IN: bool> {
    op: P,
    operands: <P::Operands as Operands>::Erased,
}

impl<P: Primitive, const IS_BUILT_IN: bool> Applied<P, IS_BUILT_IN> {
    pub(crate) fn new(op: P, operands: P::Operands) -> Self {
        Applied { op, operands: operands.into_any() }
    }
}

/// The methods that every primitive has.
macro_rules! of_primitive {
    ($is_built_in:literal) => {
        fn name(&self) -> &'static str {
            self.op.name()
        }

        fn operands(&self) -> &[NodeRef] {
            self.operands.as_ref()
        }

        fn op(&self) -> &dyn Any {
            &self.op
        }

        fn value(&self, operands: &[&Value]) -> Result<Value> {
            self.op.value(P::Operands::values(operands)).map(Data::into_value)
        }

        fn cost(&self, operands: &[&Value]) -> f64 {
            self.op.cost(P::Operands::values(operands))
        }

        fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
            let mut deltas = P::Operands::deltas(self.op.pullback(&At {
                operands: &P::Operands::from_any(self.operands()),
                values: P::Operands::values(at.values),
                output: &Layer::from_any(at.output.clone()),
                value: at.value.get(),
                delta: &Layer::from_any(at.delta),
            }));
            if !$is_built_in {
                // A step adds such a delta to its weight without a temporary, and checks it itself.
                let selected =
                    |operand: &NodeRef, delta: &NodeRef| operand.variable().is_none() || delta.accumulates().is_none();
                check_deltas(at.output, self.operands(), &mut deltas, selected);
            }
            deltas
        }

        fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
            let tangent = self.op.pushforward(&Along {
                operands: &P::Operands::from_any(along.operands),
                values: P::Operands::values(along.values),
                output: &Layer::from_any(along.output.clone()),
                value: along.value.get(),
                tangents: &P::Operands::from_deltas(along.tangents),
                any: &along,
            });
            tangent.map(Layer::into_any)
        }
    };
}

impl<P: Primitive> AnyPrimitive for Applied<P, false> {
    of_primitive!(false);

    fn is_own(&self) -> bool {
        false
    }
}

impl<P: BuiltIn> AnyPrimitive for Applied<P, true> {
    of_primitive!(true);

    fn bound_to(&self, operands: &[NodeRef]) -> Option<InlineBox<dyn AnyPrimitive>> {
        if P::HAS_SHAPE_BY_VALUE {
            return None;
        }
        let bound = Applied::<P, true>::new(self.op.clone(), P::Operands::from_any(operands));
        Some(InlineBox::operation(bound))
    }

    fn block_op(&self, operands: &[&Value], value: &Value) -> Option<BlockOp> {
        self.op.block_op(P::Operands::values(operands), value.get())
    }

    fn is_by_rows(&self, has_rows: &[bool], operands: &[&Value], value: &Value) -> bool {
        self.op.is_by_rows(has_rows, P::Operands::values(operands), value.get())
    }

    fn accumulates(&self) -> bool {
        P::ACCUMULATES
    }

    fn is_pure(&self) -> bool {
        P::IS_PURE
    }

    fn can_defer_value(&self) -> bool {
        P::CAN_DEFER_VALUE
    }

    fn can_be_later(&self) -> bool {
        P::CAN_BE_LATER
    }

    fn unit_cotangents(&self, operands: &[&Value]) -> Option<OperandVec<Option<NodeRef>>> {
        self.op.unit_cotangents(P::Operands::values(operands)).map(P::Operands::deltas)
    }

    fn value_fused_with(&self, operands: &[&Value], others: &[Value]) -> Result<Value> {
        self.op.value_fused_with(P::Operands::values(operands), Others(others)).map(Data::into_value)
    }

    fn is_sum(&self) -> bool {
        P::IS_SUM
    }

    fn can_accumulate(&self, operands: &[&Value], to: &Value) -> bool {
        let fits = |to| self.op.can_accumulate(P::Operands::values(operands), to);
        to.try_get::<P::Output>().is_some_and(fits)
    }

    fn accumulate(&self, operands: &[&Value], factor: f64, to: &mut Value) {
        let operands = P::Operands::values(operands);
        to.change(|to: &mut P::Output| self.op.accumulate(operands, factor, to));
    }

    fn sum_of_values(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<Value> {
        P::sum_of_values(&typed::<P>(terms)?).map(Data::into_value)
    }

    fn cost_of_sum(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<f64> {
        P::cost_of_sum(&typed::<P>(terms)?)
    }

    fn immediate_pullback(&self, at: AnyImmediate<'_>, sink: &mut dyn op::CotangentSink) -> bool {
        let immediate = Immediate {
            values: P::Operands::values(at.values),
            value: at.value.get(),
            delta: at.delta.get(),
            any: &at,
        };
        self.op.immediate_pullback(&immediate, &mut CotangentSink(sink))
    }
}

/// A typed operation, and the values of its operands.
type Typed<'a, P> = (&'a P, <<P as Primitive>::Operands as Operands>::Values<'a>);

/// The typed operations, if all are of type `P` and `P` accumulates.
fn typed<'a, P: BuiltIn>(terms: &[(&'a dyn AnyPrimitive, &'a [&'a Value])]) -> Option<Vec<Typed<'a, P>>> {
    if !P::ACCUMULATES {
        return None; // `sum_of_values` is not instantiated for these
    }
    let mut typed = Vec::with_capacity(terms.len());
    for (op, operands) in terms {
        typed.push((op.op().downcast_ref()?, P::Operands::values(operands)));
    }
    Some(typed)
}
