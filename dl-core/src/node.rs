//! The node behind every layer: what to compute, from which operands, and where the user wrote it.
//!
//! A node is immutable but for its *claim*: one word that says which pass has it in its books, and under which number. All
//! other state of a pass lives in the pass, so nothing has to be unmarked when it ends (see `pass/claim.rs`).

use crate::data::Data;
use crate::deferred::BoxFuture;
use crate::error::Result;
use crate::layer::Layer;
use crate::pass::Claim;
use crate::primitive::AnyPrimitive;
use crate::rules::{Binary, Unary};
use crate::tape::AnyBackward;
use crate::value::Value;
use crate::weight::AnyWeight;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;

/// A layer whose data type is forgotten: a shared handle to its node.
///
/// It is `pub` only because sealed methods of public traits mention it; nobody outside the crate can name it.
#[derive(Clone)]
#[allow(unreachable_pub, reason = "mentioned by sealed methods of public traits")]
pub struct AnyLayer(Arc<Node>);

/// What an [`AnyLayer`] points to.
#[allow(unreachable_pub, reason = "as `AnyLayer`")]
pub struct Node {
    pub(crate) claim: Claim,
    pub(crate) place: &'static Location<'static>,
    /// What the data type of this node knows about its deltas.
    pub(crate) kind_of_data: &'static DataKind,
    pub(crate) expression: Expression,
}

/// The kinds of expression.
pub(crate) enum Expression {
    /// A plain value: no gradient flows to it.
    Constant(Value),
    /// A trainable variable.
    Weight(Arc<dyn AnyWeight>),
    /// Scalar arithmetic, done in place by discovery and by the numeric reading of the reverse pass.
    Unary(Unary, [AnyLayer; 1]),
    /// The same with two operands.
    Binary(Binary, [AnyLayer; 2]),
    /// Any other operation with a kernel and a rule of its own.
    Primitive(Box<dyn AnyPrimitive>, Box<[AnyLayer]>),
    /// A computation that decides, each time anew, which layer it is.
    Dynamic(Box<dyn Recipe>),
    /// Left behind when a dropped node has given its parts away.
    Dropped,
}

/// The body of a dynamic node: every run is a fresh one.
pub(crate) trait Recipe: Send + Sync {
    fn run(&self) -> BoxFuture<Result<Outcome>>;
    fn name(&self) -> &'static str;
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
    pub(crate) scale_delta: fn(&AnyLayer, f64) -> AnyLayer,
    pub(crate) constant_delta: fn(Value) -> AnyLayer,
}

struct Typed<T>(T);

impl<T: Data> Typed<T> {
    const KIND: DataKind = DataKind {
        one: |value| value.get::<T>().one().into_value(),
        sum_deltas: |deltas| T::Delta::sum(deltas.into_iter().map(Layer::from_any).collect()).into_any(),
        scale_delta: |delta, factor| T::Delta::scale(&Layer::from_any(delta.clone()), factor).into_any(),
        constant_delta: |delta| Layer::<T::Delta>::from_expression(Expression::Constant(delta)).into_any(),
    };
}

impl AnyLayer {
    pub(crate) fn new<T: Data>(expression: Expression, place: &'static Location<'static>) -> Self {
        AnyLayer(Arc::new(Node { claim: Claim::default(), place, kind_of_data: &Typed::<T>::KIND, expression }))
    }

    /// What stands in an entry that is not in use.
    pub(crate) fn vacant() -> Self {
        thread_local! {
            static VACANT: AnyLayer = AnyLayer::new::<f32>(Expression::Dropped, Location::caller());
        }
        VACANT.with(AnyLayer::clone)
    }

    /// How many handles there are to this node, in passes, other nodes and the user's hands.
    pub(crate) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl std::ops::Deref for AnyLayer {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Node {
    pub(crate) fn operands(&self) -> &[AnyLayer] {
        match &self.expression {
            Expression::Unary(_, operands) => operands,
            Expression::Binary(_, operands) => operands,
            Expression::Primitive(_, operands) => operands,
            _ => &[],
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.expression {
            Expression::Constant(_) => "constant",
            Expression::Weight(_) => "weight",
            Expression::Unary(op, _) => op.name(),
            Expression::Binary(op, _) => op.name(),
            Expression::Primitive(op, _) => op.name(),
            Expression::Dynamic(recipe) => recipe.name(),
            Expression::Dropped => "dropped",
        }
    }
}

thread_local! {
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    static TO_DROP: RefCell<Vec<Expression>> = const { RefCell::new(Vec::new()) };
}

/// Dropping a node drops its operands, and so on down a chain that may be a million long. So a node that is dropped while
/// another one is being dropped only leaves its parts on a list, which the outermost drop empties.
impl Drop for Node {
    fn drop(&mut self) {
        if matches!(self.expression, Expression::Constant(_) | Expression::Weight(_) | Expression::Dropped) {
            return;
        }
        let parts = std::mem::replace(&mut self.expression, Expression::Dropped);
        if TO_DROP.try_with(|list| list.borrow_mut().push(parts)).is_err() {
            return; // the thread is ending: what was left on the list has been dropped with it
        }
        if DROPPING.replace(true) {
            return;
        }
        let _reset = Reset;
        while let Some(parts) = TO_DROP.with(|list| list.borrow_mut().pop()) {
            drop(parts);
        }
    }
}

struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        DROPPING.set(false);
    }
}
