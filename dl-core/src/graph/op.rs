//! A type-erased primitive with its operands, as stored in a node.

use crate::error::Result;
use crate::error::call_stack::Calls;
use crate::graph::basic_block::BlockOp;
use crate::graph::identity::Effect;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::Node;
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use smallvec::SmallVec;
use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

/// A list with one element per operand. Most operations have at most four.
pub(crate) type OperandVec<T> = SmallVec<[T; 4]>;

/// A type-erased primitive with its operands. The methods are those of
/// [`Primitive`](crate::Primitive) and of `BuiltIn`.
pub(crate) trait AnyPrimitive: Send + Sync {
    fn name(&self) -> &'static str;
    fn operands(&self) -> &[NodeRef];
    /// The primitive itself, without its operands.
    fn op(&self) -> &dyn Any;

    /// The name, for errors and records. A panic in the user's `name` must not hide the error.
    fn name_or_panic(&self) -> &'static str {
        catch_unwind(AssertUnwindSafe(|| self.name())).unwrap_or("operation")
    }

    fn value(&self, operands: &[&Value]) -> Result<Value>;
    fn cost(&self, operands: &[&Value]) -> f64;
    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>>;
    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef>;

    fn immediate_pullback(&self, at: AnyImmediate<'_>, sink: &mut dyn CotangentSink) -> bool {
        let _ = (at, sink);
        false
    }

    /// Whether a step can end with it.
    fn accumulates(&self) -> bool {
        false
    }

    fn is_pure(&self) -> bool {
        false
    }

    fn can_defer_value(&self) -> bool {
        false
    }

    fn can_be_later(&self) -> bool {
        false
    }

    fn unit_cotangents(&self, operands: &[&Value]) -> Option<OperandVec<Option<NodeRef>>> {
        let _ = operands;
        None
    }

    fn value_fused_with(&self, operands: &[&Value], others: &[Value]) -> Result<Value> {
        let _ = others;
        self.value(operands)
    }

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

    /// The sum of the values of these operations, if all are of this type.
    fn sum_of_values(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<Value> {
        let _ = terms;
        None
    }

    /// The estimated time of `sum_of_values`, in nanoseconds.
    fn cost_of_sum(&self, terms: &[(&dyn AnyPrimitive, &[&Value])]) -> Option<f64> {
        let _ = terms;
        None
    }

    /// The same operation with other operands, of the same number and types; `None` for an operation
    /// that is not of the library, or is a checkpoint. An update is bound without its effect.
    fn bound_to(&self, operands: &[NodeRef]) -> Option<InlineBox<dyn AnyPrimitive>> {
        let _ = operands;
        None
    }

    /// The operation as a part of a block, for operands and a result with the shapes of these.
    fn block_op(&self, operands: &[&Value], value: &Value) -> Option<BlockOp> {
        let _ = (operands, value);
        None
    }

    /// Whether it computes each row of the value from the same row of the operands that `has_rows`
    /// marks, for operands and a value with the shapes of these: see `BuiltIn`.
    fn is_by_rows(&self, has_rows: &[bool], operands: &[&Value], value: &Value) -> bool {
        let _ = (has_rows, operands, value);
        false
    }

    /// A call that may run together with others.
    fn groupable(&self) -> Option<&dyn Groupable> {
        None
    }

    /// For a result of a call, which is the operand: which one.
    fn result_of_call(&self) -> Option<usize> {
        None
    }

    /// Whether its value is that of its operand, without an effect.
    fn is_identity(&self) -> bool {
        false
    }

    /// The operations that it consists of, and the results among them, for a record.
    fn inner(&self, value: &Value) -> (Vec<InnerOperation>, Vec<InnerOperand>) {
        let _ = value;
        (Vec::new(), Vec::new())
    }

    /// The effect of its evaluation, if it has one.
    fn effect(&self) -> Option<Effect> {
        None
    }

    /// Whether its rules are built-in. Layers that they build then have the source location of the
    /// operation, not that of the rule.
    fn is_own(&self) -> bool {
        true
    }
}

/// What calls must have in common to run together: a function, and the identities of its weights.
pub(crate) type GroupKey = SmallVec<[usize; 8]>;

/// A call that may run together with others.
pub(crate) trait Groupable {
    fn key(&self) -> GroupKey;

    /// The node of several calls with the same key.
    fn group(&self, calls: &[NodeRef]) -> NodeRef;

    /// In place of this result of a call, that of a member of a group.
    fn result(&self, group: &NodeRef, member: usize, which: usize, result: &NodeRef) -> NodeRef;
}

/// An operation that another one consists of: a call of a compiled function. A function of numbers
/// has no call: a pass evaluates its operations.
///
/// ```
/// use dl_core::bang::{CompiledArgument, CompiledFunction};
/// use dl_core::record::{InnerOperand, InnerOperation, Recorder};
/// use dl_core::{Differentiable, Layer};
/// use dl_nd::{Nd, ndarray::Ix1};
/// // `#[differentiable(compiled)]` writes this
/// fn twice_tanh(x: &Layer<Nd<f64, Ix1>>) -> Layer<Nd<f64, Ix1>> {
///     static FUNCTION: CompiledFunction = CompiledFunction::new("twice_tanh");
///     let arguments = FUNCTION.arguments(|arguments| x.add_to(arguments));
///     FUNCTION.call(arguments, || x.tanh().tanh())
/// }
/// let recorder = Recorder::new();
/// twice_tanh(&Layer::constant(Nd::from([0.0, 1.0]))).predict().recorded(&recorder).wait()?;
/// let record = &recorder.take().passes[0];
/// let call = record.nodes.iter().find(|node| node.name == "twice_tanh").unwrap();
/// let inner: Vec<(&str, &[InnerOperand])> =
///     call.inner.iter().map(|InnerOperation { name, operands, .. }| (*name, &operands[..])).collect();
/// assert_eq!(inner, [("tanh", &[InnerOperand::Outer(0)][..]), ("tanh", &[InnerOperand::Inner(0)][..])]);
/// assert_eq!(call.results, [InnerOperand::Inner(1)]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InnerOperation {
    /// The name of the operation.
    pub name: &'static str,
    /// Where it was written.
    pub place: &'static Location<'static>,
    /// The annotated functions in which it was written.
    pub calls: Calls,
    /// What it was computed from. Constants are left out.
    pub operands: Vec<InnerOperand>,
}

/// An operand of an [`InnerOperation`], or a result. The example of [`InnerOperation`] reads both
/// kinds.
///
/// ```
/// use dl_core::record::InnerOperand;
/// let reads_outer = |operands: &[InnerOperand]| operands.iter().any(|one| matches!(one, InnerOperand::Outer(_)));
/// assert!(reads_outer(&[InnerOperand::Inner(1), InnerOperand::Outer(0)]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerOperand {
    /// The operand of the outer operation with this index.
    Outer(u32),
    /// The inner operation with this index.
    Inner(u32),
}

/// The sink of an immediate-mode pullback: the cotangent accumulators of the operands.
pub(crate) trait CotangentSink {
    /// Whether the cotangent of this operand is needed.
    fn wants(&self, which: usize) -> bool;
    fn is_weight(&self, which: usize) -> bool;
    /// Whether an operation with this estimated cost may be run inline.
    fn is_short(&self, nanoseconds: f64) -> bool;
    /// Counts evaluated operations.
    fn count(&mut self, evaluations: usize);
    fn add(&mut self, which: usize, delta: Value);
    /// Adds the cotangent of the operation itself.
    fn pass_on(&mut self, which: usize);
    fn add_layer(&mut self, which: usize, delta: NodeRef);
    fn add_part(&mut self, which: usize, part: &dyn CotangentPart);
}

/// A cotangent that is zero outside of a part of a tensor.
pub(crate) trait CotangentPart {
    fn zeros(&self) -> Value;
    /// Adds a whole tensor to the sum.
    fn add_whole(&self, sum: &mut Value, whole: &Value);
    /// Adds the part to the sum.
    fn add(&self, sum: &mut Value);
}

pub(crate) struct AnyAt<'a> {
    pub(crate) values: &'a [&'a Value],
    pub(crate) output: &'a NodeRef,
    pub(crate) value: &'a Value,
    pub(crate) delta: NodeRef,
    /// Whether the deltas may be differentiated again.
    pub(crate) may_differentiate: bool,
}

pub(crate) struct AnyImmediate<'a> {
    pub(crate) node: &'a Node,
    pub(crate) operands: &'a [NodeRef],
    pub(crate) values: &'a [&'a Value],
    pub(crate) value: &'a Value,
    pub(crate) delta: &'a Value,
}

pub(crate) struct AnyAlong<'a> {
    pub(crate) operands: &'a [NodeRef],
    pub(crate) values: &'a [&'a Value],
    pub(crate) output: &'a NodeRef,
    pub(crate) value: &'a Value,
    pub(crate) tangents: &'a [Option<NodeRef>],
}
