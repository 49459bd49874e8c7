//! The node behind every layer: its operation, operands and source location.
//!
//! Invariant: a node is immutable except for its reference count and its [`OwnerStamp`], a pair of
//! pass id and slot index. All other state of a pass lives in the pass, so nothing in the graph has
//! to be reset when a pass ends (see `owner_stamp.rs`).

use crate::graph::erased_arc::ErasedArc;
use crate::graph::inline_box::{InlineBox, InlineFuture};
#[allow(unreachable_pub, reason = "mentioned by sealed methods of public traits")]
use crate::graph::node_ref::NodeRef;
use crate::graph::variable::{Variable, VariableRef};

use crate::error::call_context::{ContextGuard, Origin, Site};
use crate::error::call_stack::Calls;
use crate::error::direction::Direction;
use crate::error::{Result, call_context};
use crate::graph::basic_block::{BasicBlock, BlockKernel, BlockView, ElementType, Elements};
use crate::graph::data::{Data, ShapeList};
use crate::graph::delta::Delta;
use crate::graph::identity::{Effect, identity};
use crate::graph::layer::Layer;
use crate::graph::op::AnyPrimitive;
use crate::graph::owner_stamp::OwnerStamp;
use crate::graph::refcount::RefCount;
use crate::graph::seed::Position;
use crate::graph::value::{Repr, Value};
use dl_math::{Binary, Side, Unary};
use dl_parallel::sync::{AtomicU32, AtomicU64, Guarded};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// The node that an [`NodeRef`] points to.
#[allow(unreachable_pub, reason = "as `NodeRef`")]
#[repr(align(64))]
pub struct Node {
    pub(super) count: RefCount,
    /// The two words of the [`OwnerStamp`].
    stamp_slot: AtomicU32,
    stamp_pass: AtomicU64,
    pub(crate) place: &'static Location<'static>,
    /// The operations on values and deltas of the node's data type.
    pub(crate) vtable: &'static DataVTable,
    pub(crate) op: NodeOp,
    pub(super) origin: Origin,
    pub(super) guarded: Guarded,
}

#[cfg(not(any(shuttle, loom)))]
const _: () =
    assert!(size_of::<Node>() == 64, "a node must fit one cache line: a second one costs 10 ns per operation");

/// The kinds of expression.
pub(crate) enum NodeOp {
    /// A constant number; no gradient flows to it. The variants of [`Value`] are repeated here:
    /// nested in one variant they would make a node larger than a cache line.
    F32(f32),
    F64(f64),
    /// A constant of another type.
    Plain(ErasedArc),
    /// A weight or a buffer, and the index of this replica.
    Weight(VariableRef, u8),
    /// Scalar arithmetic with one operand. It is evaluated inline during discovery, and its
    /// cotangents are computed inline by the numeric reading of the reverse pass.
    Unary(Unary, [NodeRef; 1]),
    /// Scalar arithmetic with two operands.
    Binary(Binary, [NodeRef; 2]),
    /// Scalar arithmetic with a constant number, which stands on this side.
    WithNumber(Binary, Side, f64, [NodeRef; 1]),
    /// Any other operation, with its kernel, rules and operands.
    Primitive(InlineBox<dyn AnyPrimitive>),
    /// A dynamic node: a computation that resolves to a layer, anew in each run.
    Dynamic(InlineBox<dyn DynamicBody>),
    /// A random number, a function of the seed of the pass and of this position.
    Seed(Position),
}

impl NodeOp {
    pub(crate) fn constant(value: Value) -> NodeOp {
        match value.0 {
            Repr::F32(number) => NodeOp::F32(number),
            Repr::F64(number) => NodeOp::F64(number),
            Repr::Any(data) => NodeOp::Plain(data),
        }
    }

    /// The value of a constant.
    #[inline]
    pub(crate) fn as_constant(&self) -> Option<Value> {
        Some(Value(match self {
            NodeOp::F32(number) => Repr::F32(*number),
            NodeOp::F64(number) => Repr::F64(*number),
            NodeOp::Plain(data) => Repr::Any(data.clone()),
            _ => return None,
        }))
    }

    /// The same operation with other operands, of the same number and types; `None` if it has no
    /// operands, or cannot be bound to others. A choice by mode is bound to the layer that it picks.
    pub(crate) fn bound_to(&self, operands: &[NodeRef]) -> Option<NodeOp> {
        Some(match self {
            NodeOp::Unary(op, _) => NodeOp::Unary(*op, [operands[0].clone()]),
            NodeOp::WithNumber(op, side, number, _) => NodeOp::WithNumber(*op, *side, *number, [operands[0].clone()]),
            NodeOp::Binary(op, _) => NodeOp::Binary(*op, [operands[0].clone(), operands[1].clone()]),
            NodeOp::Primitive(op) => NodeOp::Primitive(op.bound_to(operands)?),
            NodeOp::Dynamic(recipe) if recipe.by_mode().is_some() => identity([operands[0].clone()]),
            _ => return None,
        })
    }

    /// Whether the value is known without evaluation: a constant or a weight.
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self, NodeOp::F32(_) | NodeOp::F64(_) | NodeOp::Plain(_) | NodeOp::Weight(..))
    }
}

/// The body of a dynamic node. Each run starts a new future.
pub(crate) trait DynamicBody: Send + Sync {
    fn run(&self) -> InlineFuture<Result<Outcome>>;
    fn name(&self) -> &'static str;
    fn position(&self) -> Position;

    /// Whether it is the body of the annotated function in which it is written. The node then has
    /// the name of that function.
    fn is_function(&self) -> bool {
        false
    }

    /// For a choice by the mode of the pass: the layer for training, and that for evaluation.
    fn by_mode(&self) -> Option<&[NodeRef; 2]> {
        None
    }

    /// Whether the library created the node, so that it has no source location in user code.
    fn is_internal(&self) -> bool {
        false
    }

    /// For a conditional cotangent: whether it resolved to no cotangent.
    fn is_absent(&self) -> bool {
        false
    }

    /// For a conditional cotangent: whether its existence is known only after it has run.
    fn may_be_absent(&self) -> bool {
        false
    }
}

/// The result of the body of a dynamic node.
pub(crate) enum Outcome {
    /// A layer that gives the node its value and its gradient.
    Layer(NodeRef),
    /// A value, with a hand-written backward if it has one.
    Tape(Value, Option<AnyBackward>),
}

/// A hand-written backward. Neither graph nor executor looks into it: see
/// `autodiff/custom_backward.rs`.
pub(crate) type AnyBackward = Arc<dyn Any + Send + Sync>;

/// The type-erased operations on the values and deltas of a data type.
pub(crate) struct DataVTable {
    pub(crate) one: fn(&Value) -> Value,
    pub(crate) sum_deltas: fn(Vec<NodeRef>) -> NodeRef,
    /// Adds the second delta to the first in place. Returns whether it did.
    pub(crate) add_delta: fn(&mut Value, &Value) -> bool,
    pub(crate) scale_delta: fn(&NodeRef, f64) -> NodeRef,
    /// Fails if the delta does not belong to the value.
    pub(crate) check_delta: fn(&Value, &Value) -> Result<()>,
    pub(crate) squared_norm: fn(&Value) -> f64,
    pub(crate) delta_layer: fn(NodeOp, &'static Location<'static>) -> NodeRef,
    /// Whether scalar arithmetic is in `f32` rather than `f64`. Not meaningful for other types.
    pub(crate) is_single: bool,
    /// A non-finite number of a value, and one of a delta, if there is one.
    pub(crate) non_finite: fn(&Value) -> Option<f64>,
    pub(crate) non_finite_delta: fn(&Value) -> Option<f64>,
    pub(crate) bytes: fn(&Value) -> usize,
    pub(crate) describe: fn(&Value) -> String,
    pub(crate) settle: fn(&[&Value]),
    pub(crate) id: fn() -> TypeId,
    /// Adds the shape of a value to the list; false if it has none.
    pub(crate) shape: fn(&Value, &mut ShapeList) -> bool,
    pub(crate) element: Option<ElementType>,
    pub(crate) elements: fn(&Value) -> Option<Elements<'_>>,
    pub(crate) compile_block: fn(BasicBlock) -> Option<Box<dyn BlockKernel>>,
    pub(crate) block_view: fn(&Value, usize) -> Option<BlockView>,
    /// See [`Data::rows`], and so on.
    pub(crate) rows: fn(&Value) -> Option<usize>,
    pub(crate) stacked: fn(&[&Value]) -> Option<Value>,
    pub(crate) rows_in: fn(&Value, Range<usize>) -> Option<Value>,
    pub(crate) stacked_deltas: fn(&[&Value]) -> Option<Value>,
    pub(crate) rows_in_delta: fn(&Value, Range<usize>) -> Option<Value>,
}

impl DataVTable {
    pub(crate) const fn of<T: Data>() -> &'static DataVTable {
        &Typed::<T>::KIND
    }
}

struct Typed<T>(T);

impl<T: Data> Typed<T> {
    const KIND: DataVTable = DataVTable {
        one: |value| value.get::<T>().one().into_value(),
        sum_deltas: |deltas| T::Delta::sum(deltas.into_iter().map(Layer::from_any).collect()).into_any(),
        add_delta: |sum, term| {
            let mut is_added = false;
            sum.change(|sum: &mut T::Delta| is_added = sum.add_in_place(term.get()));
            is_added
        },
        scale_delta: |delta, factor| T::Delta::scale(&Layer::from_any(delta.clone()), factor).into_any(),
        check_delta: |value, delta| value.get::<T>().check_delta(delta.get()),
        squared_norm: |delta| delta.get::<T::Delta>().squared_norm(),
        delta_layer: NodeRef::new::<T::Delta>,
        is_single: size_of::<T>() == size_of::<f32>(),
        non_finite: |value| value.get::<T>().non_finite(),
        non_finite_delta: |delta| delta.get::<T::Delta>().non_finite(),
        bytes: |value| value.get::<T>().bytes(),
        describe: |value| value.get::<T>().describe(),
        settle: |values| T::settle(&values.iter().map(|value| value.get::<T>()).collect::<Vec<_>>()),
        id: TypeId::of::<T>,
        shape: |value, shape| value.get::<T>().push_shape(shape),
        element: T::IN_BLOCKS,
        elements: |value| value.get::<T>().elements(),
        compile_block: T::compile_block,
        block_view: |value, start| value.get::<T>().block_view(start),
        rows: |value| value.get::<T>().rows(),
        stacked: stacked::<T>,
        rows_in: |value, rows| Some(value.get::<T>().rows_in(rows)?.into_value()),
        stacked_deltas: stacked::<T::Delta>,
        rows_in_delta: |delta, rows| Some(delta.get::<T::Delta>().rows_in(rows)?.into_value()),
    };
}

fn stacked<T: Data>(parts: &[&Value]) -> Option<Value> {
    let parts: SmallVec<[&T; 16]> = parts.iter().map(|part| part.get()).collect();
    Some(T::stacked(&parts)?.into_value())
}

impl NodeRef {
    pub(crate) fn new<T: Data>(op: NodeOp, place: &'static Location<'static>) -> Self {
        NodeRef::making::<T>(|| op, place)
    }

    /// A new node with values of this type.
    pub(crate) fn of_type(vtable: &'static DataVTable, op: NodeOp, place: &'static Location<'static>) -> Self {
        NodeRef::first(|| Node::new(RefCount::one(), Origin::here(), place, vtable, op))
    }

    /// A new node. The expression is constructed in place.
    #[inline(always)]
    pub(crate) fn making<T: Data>(make: impl FnOnce() -> NodeOp, place: &'static Location<'static>) -> Self {
        NodeRef::first(|| Node::new(RefCount::one(), Origin::here(), place, DataVTable::of::<T>(), make()))
    }
}

impl Node {
    #[inline(always)]
    pub(super) fn new(
        count: RefCount,
        origin: Origin,
        place: &'static Location<'static>,
        vtable: &'static DataVTable,
        op: NodeOp,
    ) -> Self {
        let (stamp_slot, stamp_pass) = (AtomicU32::new(0), AtomicU64::new(0));
        Node { count, stamp_slot, stamp_pass, place, vtable, op, origin, guarded: Guarded::new() }
    }

    #[inline]
    pub(crate) fn operands(&self) -> &[NodeRef] {
        match &self.op {
            NodeOp::Unary(_, operands) | NodeOp::WithNumber(_, _, _, operands) => operands,
            NodeOp::Binary(_, operands) => operands,
            NodeOp::Primitive(op) => op.operands(),
            _ => &[],
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.op {
            NodeOp::F32(_) | NodeOp::F64(_) | NodeOp::Plain(_) => "constant",
            NodeOp::Weight(variable, _) => variable.name(),
            NodeOp::Unary(op, _) => op.name(),
            NodeOp::Binary(op, _) | NodeOp::WithNumber(op, ..) => op.name(),
            NodeOp::Primitive(op) => op.name(),
            NodeOp::Dynamic(recipe) => {
                let function = recipe.is_function().then(|| self.calls().innermost()).flatten();
                function.unwrap_or(recipe.name())
            }
            NodeOp::Seed(_) => "seed",
        }
    }

    /// The name. A panic in the `name` of a user operation is caught, as it must not change the
    /// result of a pass.
    pub(crate) fn name_or_panic(&self) -> &'static str {
        match &self.op {
            NodeOp::Primitive(op) => op.name_or_panic(),
            _ => self.name(),
        }
    }

    /// Moves a node that was built by a rule to the source location of the operation with the rule.
    #[cold]
    pub(super) fn place_by_rule(&mut self) {
        self.place = call_context::rule_place().unwrap_or(self.place);
    }

    /// The annotated functions in which the node was built. A cotangent has those of the operation
    /// that it is a derivative of.
    pub(crate) fn calls(&self) -> Calls {
        self.origin.calls()
    }

    /// Whether the node belongs to the forward computation or to the backward.
    pub(crate) fn direction(&self) -> Direction {
        self.origin.direction()
    }

    /// The source location of errors in this node.
    pub(crate) fn site(&self) -> Site {
        Site { place: self.place, calls: self.calls() }
    }

    /// Sets the call context of this thread to that of the node, until the guard is dropped: for
    /// layers built by its body or kernel.
    #[inline]
    pub(crate) fn enter(&self) -> ContextGuard {
        call_context::enter(self.origin, self.place)
    }

    /// The same, where the node belongs to a function that was called in the chain `from`, and is
    /// called in the chain `to` now.
    pub(crate) fn enter_at(&self, site: Site) -> ContextGuard {
        call_context::enter(self.origin.with(site.calls), site.place)
    }

    /// Sets the call context of this thread to that of a rule of the node, until the guard is
    /// dropped.
    pub(crate) fn enter_rule(&self, direction: Direction) -> ContextGuard {
        call_context::enter(self.origin.of_rule(direction), self.place)
    }

    #[inline]
    pub(crate) fn stamp(&self) -> OwnerStamp<'_> {
        OwnerStamp { pass: &self.stamp_pass, slot: &self.stamp_slot }
    }

    /// Whether this is scalar arithmetic.
    #[inline]
    pub(crate) fn is_arithmetic(&self) -> bool {
        matches!(self.op, NodeOp::Unary(..) | NodeOp::Binary(..) | NodeOp::WithNumber(..))
    }

    #[inline]
    pub(crate) fn is_dynamic(&self) -> bool {
        matches!(self.op, NodeOp::Dynamic(_))
    }

    /// The position of a seed or of a dynamic node: see `seed.rs`.
    pub(crate) fn position(&self) -> Option<Position> {
        match &self.op {
            NodeOp::Seed(position) => Some(*position),
            NodeOp::Dynamic(recipe) => Some(recipe.position()),
            _ => None,
        }
    }

    /// The layer for training and that for evaluation, if it is a choice by the mode of the pass.
    pub(crate) fn by_mode(&self) -> Option<&[NodeRef; 2]> {
        match &self.op {
            NodeOp::Dynamic(recipe) => recipe.by_mode(),
            _ => None,
        }
    }

    /// The effect of its evaluation, if it has one.
    pub(crate) fn effect(&self) -> Option<Effect> {
        match &self.op {
            NodeOp::Primitive(op) => op.effect(),
            _ => None,
        }
    }

    /// Whether this is a checkpoint boundary: the end of a segment.
    pub(crate) fn is_checkpoint(&self) -> bool {
        self.effect() == Some(Effect::Checkpoint)
    }

    /// The operation, if it can accumulate into a weight as the last operation of a training step.
    pub(crate) fn accumulates(&self) -> Option<&dyn AnyPrimitive> {
        match &self.op {
            NodeOp::Primitive(op) if op.accumulates() => Some(&**op),
            _ => None,
        }
    }

    /// Whether this is a conditional cotangent that resolved to none.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(&self.op, NodeOp::Dynamic(recipe) if recipe.is_absent())
    }

    /// Whether this is a conditional cotangent: known to exist or not only after evaluation.
    pub(crate) fn may_be_absent(&self) -> bool {
        matches!(&self.op, NodeOp::Dynamic(recipe) if recipe.may_be_absent())
    }

    /// The number of handles to this node: in passes, in other nodes and in user code.
    pub(crate) fn handles(&self) -> usize {
        self.count.handles()
    }

    /// The identity of the layer. All replicas of a weight have the identity of the weight.
    pub(crate) fn identity(&self) -> usize {
        self.variable().map_or(std::ptr::from_ref(self).addr(), |variable| variable.address())
    }

    /// Whether the node is uniquely referenced. If so, only the owner of that handle, usually one
    /// consumer, can reach the node.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.count.is_one()
    }

    /// The parameter storage of a weight or a buffer.
    pub(crate) fn as_variable(&self) -> Option<&Variable> {
        match &self.op {
            NodeOp::Weight(variable, _) => Some(variable),
            _ => None,
        }
    }

    /// The parameter storage of a weight or a buffer, without the lifetime of this handle.
    #[inline]
    pub(crate) fn variable(&self) -> Option<VariableRef> {
        match &self.op {
            NodeOp::Weight(variable, _) => Some(*variable),
            _ => None,
        }
    }
}
