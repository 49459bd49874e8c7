//! What the operations of the library promise to the executor, and their fast paths.

use crate::api::primitive::{Deltas, Primitive, sealed};
use crate::autodiff::cotangent::AnyDelta;
use crate::error::Result;
use crate::graph::basic_block::BlockOp;
use crate::graph::data::Data;
use crate::graph::layer::Layer;
use crate::graph::op::{self, AnyImmediate, CotangentPart};
use crate::graph::value::Value;
use std::marker::PhantomData;

type Values<'a, P> = <<P as Primitive>::Operands as sealed::Operands>::Values<'a>;
type DeltaOf<P> = <<P as Primitive>::Output as Data>::Delta;

/// An operation of the library. It is applied by `Layer::apply_built_in`; a layer that its rule
/// builds has the source location of the operation.
///
/// ```
/// use dl_core::{At, BuiltIn, Deltas, Differentiable, Layer, Primitive, Result, Weight};
/// use dl_optim::Sgd;
///
/// /// The product, which can be added to a number without a temporary.
/// #[derive(Clone)]
/// struct Product;
///
/// impl Primitive for Product {
///     type Operands = (Layer<f64>, Layer<f64>);
///     type Output = f64;
///     fn name(&self) -> &'static str {
///         "product"
///     }
///     fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
///         Ok(a * b)
///     }
///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
///         let times = |x: &Layer<f64>| Some(Layer::apply_built_in(Product, (at.delta.clone(), x.clone())));
///         (times(&at.operands.1), times(&at.operands.0))
///     }
/// }
///
/// impl BuiltIn for Product {
///     const ACCUMULATES: bool = true;
///     fn can_accumulate(&self, _: (&f64, &f64), _: &f64) -> bool {
///         true
///     }
///     fn accumulate(&self, (a, b): (&f64, &f64), factor: f64, to: &mut f64) {
///         *to += factor * a * b;
///     }
/// }
///
/// let w = Weight::new(2.0);
/// Layer::apply_built_in(Product, (w.layer(), Layer::constant(3.0))).train(&Sgd::new(0.5)).wait()?;
/// assert_eq!(w.value(), 0.5);
/// # Result::Ok(())
/// ```
pub trait BuiltIn: Primitive + Clone {
    /// Whether the kernel is pure. A pure kernel must not run user code, start a pass, or block; it
    /// must return errors and not panic; its operands and its result must be plain data with
    /// trivial destructors; its cost must not be underestimated. A pass may run it under the state
    /// lock, in the forward and in the backward pass.
    const IS_PURE: bool = false;

    /// Whether this is the sum of its operands, in their order. A term that only the sum reads is
    /// then not computed apart, but added to the sum of the terms before it, if it
    /// [accumulates](BuiltIn::ACCUMULATES).
    const IS_SUM: bool = false;

    /// Whether the shape of the value depends on the values of the operands, and not on their
    /// shapes alone. A compiled function must not have such an operation.
    const HAS_SHAPE_BY_VALUE: bool = false;

    /// Whether [`accumulate`](BuiltIn::accumulate) is implemented.
    const ACCUMULATES: bool = false;

    /// Whether the value can be computed after the deltas below it and fused with them, so that
    /// shared inputs are read once. Requires [`unit_cotangents`](BuiltIn::unit_cotangents).
    const CAN_DEFER_VALUE: bool = false;

    /// Whether [`value`](Primitive::value) returns the result of [`later`](crate::later) as it is,
    /// where a device computes the value. Its cost must then be too high for a lock.
    const CAN_BE_LATER: bool = false;

    /// The immediate-mode [`pullback`](Primitive::pullback), for a small delta with a value that is
    /// known: computes the deltas of the operands and adds them to `sink`, from the first operand
    /// to the last. The result must equal that of the layers bit for bit. Returns `false`, and adds
    /// nothing, where there is no such fast path. Only [pure](BuiltIn::IS_PURE) operations
    /// implement it.
    fn immediate_pullback(&self, at: &Immediate<'_, Self>, sink: &mut CotangentSink<'_>) -> bool {
        let _ = (at, sink);
        false
    }

    /// The operation as a part of a block, for operands and a value with the shapes of these. It
    /// must have the bits of [`value`](Primitive::value). `None` if a block has no such operation,
    /// or if the tensors are large.
    fn block_op(&self, operands: Values<'_, Self>, value: &Self::Output) -> Option<BlockOp> {
        let _ = (operands, value);
        None
    }

    /// Whether the operation is *by rows*: row `i` of the value (index `i` of the first axis) is
    /// computed from row `i` of those operands that `has_rows` marks, and from all of the others,
    /// whatever the number of rows is. `operands` and `value` are examples, whose shapes count. At
    /// least one operand is marked; the value of the example has as many rows as these.
    fn is_by_rows(&self, has_rows: &[bool], operands: Values<'_, Self>, value: &Self::Output) -> bool {
        let _ = (has_rows, operands, value);
        false
    }

    /// Whether the value fits `to`, so that [`accumulate`](BuiltIn::accumulate) cannot fail, and
    /// whether accumulating with a factor of 1 equals computing the sum bit for bit. Otherwise
    /// results would depend on other uses of the value.
    fn can_accumulate(&self, operands: Values<'_, Self>, to: &Self::Output) -> bool {
        let _ = (operands, to);
        false
    }

    /// Adds `factor` times the value to `to`, without a temporary. Plain gradient descent updates a
    /// weight with it, if this operation is the delta of the weight.
    fn accumulate(&self, operands: Values<'_, Self>, factor: f64, to: &mut Self::Output) {
        let _ = (operands, factor, to);
    }

    /// The sum of the values of several operations on these operands, from the first to the last,
    /// bit for bit, computed at once; `None` if there is no fused implementation.
    fn sum_of_values(terms: &[(&Self, Values<'_, Self>)]) -> Option<Self::Output> {
        let _ = terms;
        None
    }

    /// The estimated time of [`sum_of_values`](BuiltIn::sum_of_values) in nanoseconds; `None` if
    /// that returns `None`. It computes nothing.
    fn cost_of_sum(terms: &[(&Self, Values<'_, Self>)]) -> Option<f64> {
        let _ = terms;
        None
    }

    /// The deltas of the operands for a delta of 1, without the value; `None` if deferring the
    /// value does not pay off for these operands. As a [`pullback`](Primitive::pullback), it
    /// computes nothing.
    fn unit_cotangents(&self, operands: Values<'_, Self>) -> Option<Deltas<Self>> {
        let _ = operands;
        None
    }

    /// The [`value`](Primitive::value), bit for bit, fused with the evaluation of `others`.
    ///
    /// # Errors
    /// Those of [`value`](Primitive::value).
    fn value_fused_with(&self, operands: Values<'_, Self>, others: Others<'_>) -> Result<Self::Output> {
        let _ = others;
        self.value(operands)
    }
}

/// Values of several types, which may be lazy and not yet realized: see [`Data::settle`].
#[derive(Clone, Copy)]
pub struct Others<'a>(pub(crate) &'a [Value]);

impl<'a> Others<'a> {
    /// The values of this type, unless it is a scalar type.
    pub fn of<T: Data>(self) -> impl Iterator<Item = &'a T> {
        self.0.iter().filter_map(Value::try_get)
    }
}

/// The context of an immediate-mode pullback: see [`BuiltIn::immediate_pullback`].
pub struct Immediate<'a, P: Primitive> {
    /// The values of the operands.
    pub values: Values<'a, P>,
    /// The value of the operation.
    pub value: &'a P::Output,
    /// The delta of its value.
    pub delta: &'a DeltaOf<P>,
    pub(crate) any: &'a AnyImmediate<'a>,
}

impl<P: Primitive> Immediate<'_, P> {
    /// The operands as layers, for deltas that are built lazily after all.
    pub fn operands(&self) -> P::Operands {
        <P::Operands as sealed::Operands>::from_any(self.any.operands)
    }

    /// The delta of the value as a layer, for the same purpose.
    pub fn delta_layer(&self) -> Layer<DeltaOf<P>> {
        Layer::from_any(AnyDelta::Ready(self.any.delta.clone()).into_layer(self.any.node))
    }
}

/// The sink of an immediate-mode pullback: the accumulators of the operands.
pub struct CotangentSink<'a>(pub(crate) &'a mut dyn op::CotangentSink);

impl CotangentSink<'_> {
    /// Whether the cotangent of this operand is needed.
    #[must_use]
    pub fn wants(&self, which: usize) -> bool {
        self.0.wants(which)
    }

    /// Whether this operand is a weight. A product then need not be evaluated, as the step
    /// accumulates it into the weight.
    #[must_use]
    pub fn is_weight(&self, which: usize) -> bool {
        self.0.is_weight(which)
    }

    /// Whether an operation with this estimated cost may be run inline.
    #[must_use]
    pub fn is_short(&self, nanoseconds: f64) -> bool {
        self.0.is_short(nanoseconds)
    }

    /// Counts evaluated operations: as many as there would have been layers.
    pub fn count(&mut self, evaluations: usize) {
        self.0.count(evaluations);
    }

    /// Adds a cotangent to an operand.
    pub fn add<T: Data>(&mut self, which: usize, delta: T) {
        self.0.add(which, delta.into_value());
    }

    /// Adds the cotangent of the operation itself.
    pub fn pass_on(&mut self, which: usize) {
        self.0.pass_on(which);
    }

    /// Adds a cotangent that is a layer. It is evaluated inline after the rule if possible, unless
    /// a step accumulates it into a weight.
    pub fn add_layer<T: Data>(&mut self, which: usize, delta: Layer<T>) {
        self.0.add_layer(which, delta.into_any());
    }

    /// Adds to a part of the cotangent of an operand; if none has arrived, of zeros. Counts as one
    /// operation, together with the sum of all cotangents that arrive there.
    ///
    /// A sum of layers with parts among its terms starts with zeros, so that −0 becomes 0 also
    /// outside of the parts, and the result has the layout of zeros. For the same bits, the
    /// cotangents that arrived before the first part are added to zeros, by `add_whole`.
    pub fn add_part<T: Data>(
        &mut self,
        which: usize,
        zeros: impl Fn() -> T,
        add_whole: impl Fn(&mut T, &T),
        add: impl Fn(&mut T),
    ) {
        self.0.add_part(which, &(zeros, add_whole, add, PhantomData::<fn(T)>));
    }
}

impl<T: Data, Z: Fn() -> T, W: Fn(&mut T, &T), A: Fn(&mut T)> CotangentPart for (Z, W, A, PhantomData<fn(T)>) {
    fn zeros(&self) -> Value {
        (self.0)().into_value()
    }

    fn add_whole(&self, sum: &mut Value, whole: &Value) {
        sum.change(|sum: &mut T| (self.1)(sum, whole.get()));
    }

    fn add(&self, sum: &mut Value) {
        sum.change(|sum: &mut T| (self.2)(sum));
    }
}
