//! The node behind every layer: what to compute, from which operands, and where the user wrote it.
//!
//! A node is immutable but for its *claim*: one word that says which pass has it in its books, and
//! under which number. All other state of a pass lives in the pass, so nothing has to be unmarked
//! when it ends (see `exec/owner_stamp.rs`).

use crate::graph::erased_arc::Shared;
use crate::graph::inline_box::{Kept, KeptFuture};
#[allow(unreachable_pub, reason = "mentioned by sealed methods of public traits")]
use crate::graph::node_ref::AnyLayer;
use crate::graph::variable::{Variable, VariableRef};

use crate::api::tape::AnyBackward;
use crate::error::Result;
use crate::error::call_context;
use crate::error::call_context::{ContextGuard, Origin, Site};
use crate::error::call_stack::Calls;
use crate::error::direction::Direction;
use crate::exec::Claim;
use crate::graph::data::Data;
use crate::graph::delta::{Delta, checked};
use crate::graph::layer::Layer;
use crate::graph::op::AnyPrimitive;
use crate::graph::refcount::Count;
use crate::graph::seed::Position;
use crate::graph::value::{Repr, Value};
use crate::parallel::sync::{AtomicU32, AtomicU64, Guarded};
use dl_math::{Binary, Side, Unary};
use std::any::TypeId;
use std::panic::Location;
use std::sync::Arc;

/// What an [`AnyLayer`] points to.
#[allow(unreachable_pub, reason = "as `AnyLayer`")]
#[repr(align(64))]
pub struct Node {
    pub(super) count: Count,
    /// The claim on it: see [`Claim`].
    claimed_entry: AtomicU32,
    claimed_by: AtomicU64,
    pub(crate) place: &'static Location<'static>,
    /// What the data type of this node knows about its deltas.
    pub(crate) kind_of_data: &'static DataKind,
    pub(crate) expression: Expression,
    pub(super) origin: Origin,
    pub(super) guarded: Guarded,
}

#[cfg(not(any(shuttle, loom)))]
const _: () = assert!(size_of::<Node>() == 64, "a node is one cache line: more costs ten nanoseconds an operation");

/// The kinds of expression.
pub(crate) enum Expression {
    /// A plain number: no gradient flows to it. The variants of [`Value`] stand here one by one:
    /// that in a variant of its own would make a node larger than a cache line.
    F32(f32),
    F64(f64),
    /// Another plain value.
    Plain(Shared),
    /// A trainable variable, and which of its leaves this is.
    Weight(VariableRef, u8),
    /// Scalar arithmetic, done in place by discovery and by the numeric reading of the reverse
    /// pass.
    Unary(Unary, [AnyLayer; 1]),
    /// The same with two operands.
    Binary(Binary, [AnyLayer; 2]),
    /// The same with a plain number, which stands on this side.
    WithNumber(Binary, Side, f64, [AnyLayer; 1]),
    /// Any other operation with a kernel and a rule of its own; it keeps its operands.
    Primitive(Kept<dyn AnyPrimitive>),
    /// A computation that decides, each time anew, which layer it is.
    Dynamic(Kept<dyn Recipe>),
    /// A random number for this position.
    Seed(Position),
}

impl Expression {
    pub(crate) fn constant(value: Value) -> Expression {
        match value.0 {
            Repr::F32(number) => Expression::F32(number),
            Repr::F64(number) => Expression::F64(number),
            Repr::Any(data) => Expression::Plain(data),
        }
    }

    /// The value, if this is a constant.
    #[inline]
    pub(crate) fn as_constant(&self) -> Option<Value> {
        Some(Value(match self {
            Expression::F32(number) => Repr::F32(*number),
            Expression::F64(number) => Repr::F64(*number),
            Expression::Plain(data) => Repr::Any(data.clone()),
            _ => return None,
        }))
    }

    /// Whether its value is there, as that of a constant or a weight is.
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self, Expression::F32(_) | Expression::F64(_) | Expression::Plain(_) | Expression::Weight(..))
    }
}

/// The body of a dynamic node: every run is a fresh one.
pub(crate) trait Recipe: Send + Sync {
    fn run(&self) -> KeptFuture<Result<Outcome>>;
    fn name(&self) -> &'static str;
    fn position(&self) -> Position;

    /// Whether it is the body of the annotated function in which it is written, and so is called by
    /// the name of that.
    fn is_function(&self) -> bool {
        false
    }

    /// Whether the library made it for itself: nobody wrote it.
    fn is_internal(&self) -> bool {
        false
    }

    /// Of a delta: whether it turned out that none arrives.
    fn is_absent(&self) -> bool {
        false
    }

    /// Of a delta: whether that is known only when it has run.
    fn may_be_absent(&self) -> bool {
        false
    }
}

/// What a dynamic node turned out to be.
pub(crate) enum Outcome {
    /// Another layer, whose value and gradient become the node's own.
    Layer(AnyLayer),
    /// A value with a hand-written backward, or none.
    Tape(Value, Option<Arc<dyn AnyBackward>>),
}

/// How to write sums and multiples of a node's deltas, with the types forgotten.
pub(crate) struct DataKind {
    pub(crate) one: fn(&Value) -> Value,
    pub(crate) sum_deltas: fn(Vec<AnyLayer>) -> AnyLayer,
    /// Adds another delta to this one in place, if it can.
    pub(crate) add_delta: fn(&mut Value, &Value) -> bool,
    pub(crate) scale_delta: fn(&AnyLayer, f64) -> AnyLayer,
    /// A delta for this value that somebody has given by hand, looked at.
    pub(crate) checked_delta: fn(&AnyLayer, &AnyLayer) -> AnyLayer,
    pub(crate) squared_norm: fn(&Value) -> f64,
    pub(crate) delta_layer: fn(Expression, &'static Location<'static>) -> AnyLayer,
    /// Whether this is `f32`, rather than `f64`, where it matters: in scalar arithmetic.
    pub(crate) is_single: bool,
    /// A number of a value, and one of its delta, that is not finite.
    pub(crate) non_finite: fn(&Value) -> Option<f64>,
    pub(crate) non_finite_delta: fn(&Value) -> Option<f64>,
    pub(crate) bytes: fn(&Value) -> usize,
    pub(crate) describe: fn(&Value) -> String,
    pub(crate) settle: fn(&[&Value]),
    pub(crate) id: fn() -> TypeId,
}

impl DataKind {
    pub(crate) const fn of<T: Data>() -> &'static DataKind {
        &Typed::<T>::KIND
    }
}

struct Typed<T>(T);

impl<T: Data> Typed<T> {
    const KIND: DataKind = DataKind {
        one: |value| value.get::<T>().one().into_value(),
        sum_deltas: |deltas| T::Delta::sum(deltas.into_iter().map(Layer::from_any).collect()).into_any(),
        add_delta: |sum, term| {
            let mut is_added = false;
            sum.change(|sum: &mut T::Delta| is_added = sum.add_in_place(term.get()));
            is_added
        },
        scale_delta: |delta, factor| T::Delta::scale(&Layer::from_any(delta.clone()), factor).into_any(),
        checked_delta: checked::<T>,
        squared_norm: |delta| delta.get::<T::Delta>().squared_norm(),
        delta_layer: AnyLayer::new::<T::Delta>,
        is_single: size_of::<T>() == size_of::<f32>(),
        non_finite: |value| value.get::<T>().non_finite(),
        non_finite_delta: |delta| delta.get::<T::Delta>().non_finite(),
        bytes: |value| value.get::<T>().bytes(),
        describe: |value| value.get::<T>().describe(),
        settle: |values| T::settle(&values.iter().map(|value| value.get::<T>()).collect::<Vec<_>>()),
        id: TypeId::of::<T>,
    };
}

impl AnyLayer {
    pub(crate) fn new<T: Data>(expression: Expression, place: &'static Location<'static>) -> Self {
        AnyLayer::making::<T>(|| expression, place)
    }

    /// A node whose expression is made where it stays.
    #[inline(always)]
    pub(crate) fn making<T: Data>(make: impl FnOnce() -> Expression, place: &'static Location<'static>) -> Self {
        AnyLayer::first(|| Node::new(Count::one(), Origin::here(), place, DataKind::of::<T>(), make()))
    }
}

impl Node {
    #[inline(always)]
    pub(super) fn new(
        count: Count,
        origin: Origin,
        place: &'static Location<'static>,
        kind_of_data: &'static DataKind,
        expression: Expression,
    ) -> Self {
        let (claimed_entry, claimed_by) = (AtomicU32::new(0), AtomicU64::new(0));
        Node { count, claimed_entry, claimed_by, place, kind_of_data, expression, origin, guarded: Guarded::new() }
    }

    #[inline]
    pub(crate) fn operands(&self) -> &[AnyLayer] {
        match &self.expression {
            Expression::Unary(_, operands) | Expression::WithNumber(_, _, _, operands) => operands,
            Expression::Binary(_, operands) => operands,
            Expression::Primitive(op) => op.operands(),
            _ => &[],
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.expression {
            Expression::F32(_) | Expression::F64(_) | Expression::Plain(_) => "constant",
            Expression::Weight(variable, _) => variable.weight.name(),
            Expression::Unary(op, _) => op.name(),
            Expression::Binary(op, _) | Expression::WithNumber(op, ..) => op.name(),
            Expression::Primitive(op) => op.name(),
            Expression::Dynamic(recipe) => {
                let function = recipe.is_function().then(|| self.calls().innermost()).flatten();
                function.unwrap_or(recipe.name())
            }
            Expression::Seed(_) => "seed",
        }
    }

    /// The name; a panic of the user's code that says it must not change what is computed.
    pub(crate) fn name_or_panic(&self) -> &'static str {
        match &self.expression {
            Expression::Primitive(op) => op.name_or_panic(),
            _ => self.name(),
        }
    }

    /// It was built by a rule, and stands where the operation stands.
    #[cold]
    pub(super) fn place_by_rule(&mut self) {
        self.place = call_context::rule_place().unwrap_or(self.place);
    }

    /// In which functions it was written; for a delta, those of the operation whose derivative it
    /// is.
    pub(crate) fn calls(&self) -> Calls {
        self.origin.calls()
    }

    /// Whether it is part of the way back.
    pub(crate) fn direction(&self) -> Direction {
        self.origin.direction()
    }

    /// Where an error in it is to point.
    pub(crate) fn site(&self) -> Site {
        Site { place: self.place, calls: self.calls() }
    }

    /// From now on this thread builds where this was written: what a body builds, and a kernel.
    #[inline]
    pub(crate) fn enter(&self) -> ContextGuard {
        call_context::enter(self.origin, self.place)
    }

    /// From now on this thread builds what the derivative of this consists of.
    pub(crate) fn enter_rule(&self, direction: Direction) -> ContextGuard {
        call_context::enter(self.origin.of_rule(direction), self.place)
    }

    #[inline]
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim { pass: &self.claimed_by, entry: &self.claimed_entry }
    }

    /// Whether this is scalar arithmetic.
    #[inline]
    pub(crate) fn is_arithmetic(&self) -> bool {
        matches!(self.expression, Expression::Unary(..) | Expression::Binary(..) | Expression::WithNumber(..))
    }

    #[inline]
    pub(crate) fn is_dynamic(&self) -> bool {
        matches!(self.expression, Expression::Dynamic(_))
    }

    /// Whether the commit of a step is to write something when this was evaluated.
    pub(crate) fn is_update(&self) -> bool {
        matches!(&self.expression, Expression::Primitive(op) if op.update().is_some())
    }

    /// Whether this marks the end of a segment.
    pub(crate) fn is_mark(&self) -> bool {
        matches!(&self.expression, Expression::Primitive(op) if op.is_mark())
    }

    /// The operation, if a training step can end with it.
    pub(crate) fn accumulates(&self) -> Option<&dyn AnyPrimitive> {
        match &self.expression {
            Expression::Primitive(op) if op.accumulates() => Some(&**op),
            _ => None,
        }
    }

    /// Whether this is a delta that turned out not to arrive.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(&self.expression, Expression::Dynamic(recipe) if recipe.is_absent())
    }

    /// Whether this is a delta that may turn out not to arrive.
    pub(crate) fn may_be_absent(&self) -> bool {
        matches!(&self.expression, Expression::Dynamic(recipe) if recipe.may_be_absent())
    }

    /// How many handles there are to this node, in passes, other nodes and the user's hands.
    pub(crate) fn handles(&self) -> usize {
        self.count.handles()
    }

    /// What makes a layer the same as another one: the leaves of a weight are the same layer.
    pub(crate) fn identity(&self) -> usize {
        self.variable().map_or(std::ptr::from_ref(self).addr(), |variable| variable.address())
    }

    /// Whether the operand at hand is the only handle to this node, so that nobody else can come by
    /// it.
    #[inline]
    pub(crate) fn is_lone(&self) -> bool {
        self.count.is_one()
    }

    /// The variable, if this is a weight or a buffer.
    pub(crate) fn as_variable(&self) -> Option<&Variable> {
        match &self.expression {
            Expression::Weight(variable, _) => Some(variable),
            _ => None,
        }
    }

    /// The variable, if this is a weight or a buffer.
    #[inline]
    pub(crate) fn variable(&self) -> Option<VariableRef> {
        match &self.expression {
            Expression::Weight(variable, _) => Some(*variable),
            _ => None,
        }
    }
}
