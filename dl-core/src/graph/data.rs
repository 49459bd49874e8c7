//! The traits of forward values ([`Data`]) and of values that a weight can hold ([`Trainable`]).

use crate::error::Result;
use crate::graph::basic_block::{BasicBlock, BlockKernel, BlockView, ElementType, Elements};
use crate::graph::chunk::Chunk;
use crate::graph::delta::Delta;
use crate::graph::lazy_chunk::LazyChunk;
use crate::graph::participant::Participant;
use crate::graph::value::Value;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A type of forward values, together with the type of its derivatives.
///
/// [`Delta`](Data::Delta) is usually the type itself, but need not be: a dense table may have
/// sparse rows as its delta, and data without a derivative have [`Nothing`](crate::Nothing).
///
/// ```
/// use dl_core::Data;
/// assert_eq!(3.5_f64.one(), 1.0);
/// assert_eq!(3.5_f64.bytes(), 8);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the value of a layer",
    note = "a layer holds `f32`, `f64`, a tensor (`Nd`), or a type of your own that implements `Data`"
)]
pub trait Data: Clone + Send + Sync + 'static {
    /// The type of derivatives with respect to a value of this type.
    type Delta: Delta;

    /// The delta that a backward pass starts with: the derivative of a value with respect to
    /// itself, 1 for every element.
    fn one(&self) -> Self::Delta;

    /// Checks that a delta belongs to this value: that of a tensor must have its shape. Called for
    /// deltas and directions that the caller of a derivative passes in, and for deltas that the
    /// rule of a user operation returns.
    ///
    /// # Errors
    /// If it does not.
    ///
    /// ```
    /// use dl_core::{Data, Delta, Error, Layer, Result};
    /// #[derive(Clone)]
    /// struct Series(Vec<f64>);
    /// impl Data for Series {
    ///     type Delta = f64; // of their sum
    ///     fn one(&self) -> f64 {
    ///         1.0
    ///     }
    ///     fn check_delta(&self, delta: &f64) -> Result<()> {
    ///         if delta.is_nan() { Err(Error::invalid("the derivative is not a number")) } else { Ok(()) }
    ///     }
    /// }
    /// assert!(Series(vec![1.0]).check_delta(&f64::NAN).is_err());
    /// ```
    fn check_delta(&self, delta: &Self::Delta) -> Result<()> {
        let _ = delta;
        Ok(())
    }

    /// An infinite or NaN number of this value, if there is one. Used by
    /// [`Layer::refuse_non_finite`](crate::Layer::refuse_non_finite).
    ///
    /// ```
    /// use dl_core::Data;
    /// assert_eq!((1.0_f64.non_finite(), f64::INFINITY.non_finite()), (None, Some(f64::INFINITY)));
    /// ```
    fn non_finite(&self) -> Option<f64> {
        None
    }

    /// The memory that a value occupies, in bytes. A pass adds it up in
    /// [`bytes_peak`](crate::Counters::bytes_peak).
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// Type and shape of a value, shown in a [record](crate::record) of a pass: `f32[16, 64]`. By
    /// default the name of the type.
    ///
    /// ```
    /// use dl_core::{Data, Nothing};
    /// #[derive(Clone)]
    /// struct Series(Vec<f64>);
    /// impl Data for Series {
    ///     type Delta = Nothing;
    ///     fn one(&self) -> Nothing {
    ///         Nothing
    ///     }
    /// }
    /// assert_eq!((Series(vec![]).describe(), 1.0_f32.describe()), ("Series".to_owned(), "f32".to_owned()));
    /// ```
    fn describe(&self) -> String {
        let name = std::any::type_name::<Self>();
        let path = name.split('<').next().unwrap_or(name);
        path.rsplit("::").next().unwrap_or(path).to_owned()
    }

    /// Adds the shape of the value to the list, if the shape and the type alone decide how its
    /// derivatives are built; returns false otherwise. A compiled function keeps one backward for
    /// each shape of its operands.
    #[doc(hidden)]
    fn push_shape(&self, shape: &mut ShapeList) -> bool {
        let _ = shape;
        false
    }

    /// The type of the elements, if values can be read and written by a [`BasicBlock`].
    #[doc(hidden)]
    const IN_BLOCKS: Option<ElementType> = None;

    /// The elements of such a value.
    #[doc(hidden)]
    fn elements(&self) -> Option<Elements<'_>> {
        None
    }

    /// A kernel with the same bits as the operations one by one.
    #[doc(hidden)]
    fn compile_block(block: BasicBlock) -> Option<Box<dyn BlockKernel>> {
        let _ = block;
        None
    }

    /// A function that makes a value of this shape from the elements of a block at `start`.
    #[doc(hidden)]
    fn block_view(&self, start: usize) -> Option<BlockView> {
        let _ = start;
        None
    }

    /// The length of the first axis: the number of rows.
    #[doc(hidden)]
    fn rows(&self) -> Option<usize> {
        None
    }

    /// The rows of several values, which differ in the number of rows only, as one value.
    #[doc(hidden)]
    fn stacked(parts: &[&Self]) -> Option<Self> {
        let _ = parts;
        None
    }

    /// Some of the rows.
    #[doc(hidden)]
    fn rows_in(&self, rows: Range<usize>) -> Option<Self> {
        let _ = rows;
        None
    }

    /// Realizes deferred (lazy) values: computes them if they are still unevaluated. The runtime
    /// calls it without a lock, before it returns values to the caller or steps weights by them.
    /// The values of one type are passed together, so that shared subexpressions are computed once.
    ///
    /// ```
    /// use dl_core::Data;
    /// f64::settle(&[&1.0, &2.0]); // a plain number has nothing to realize
    /// ```
    fn settle(values: &[&Self]) {
        let _ = values;
    }

    /// The same value in the standard memory layout, as a weight or a buffer stores it. The last
    /// bits of a computation may depend on the layout of its operands, and a checkpoint does not
    /// record the layout.
    #[doc(hidden)]
    fn at_rest(self) -> Self {
        self
    }

    /// This value where `other` lies.
    ///
    /// # Errors
    /// Those of the device.
    #[doc(hidden)]
    fn beside(self, other: &Self) -> Result<Self> {
        let _ = other;
        Ok(self)
    }

    /// This value on the host.
    ///
    /// # Errors
    /// Those of the device.
    #[doc(hidden)]
    fn on_host(self) -> Result<Self> {
        Ok(self)
    }

    /// Converts the value to the representation that the executor stores.
    #[doc(hidden)]
    fn into_value(self) -> Value {
        Value::boxed(self)
    }

    /// The inverse of `into_value`.
    #[doc(hidden)]
    fn from_value(value: &Value) -> &Self {
        value.unboxed()
    }
}

/// The shapes of several values, one after the other.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapeList(SmallVec<[usize; 32]>);

impl ShapeList {
    /// Adds a shape, or a part of one.
    pub fn extend(&mut self, shape: &[usize]) {
        // a shape has a few lengths: one by one they take less time than as a slice
        shape.iter().for_each(|&length| self.0.push(length));
    }
}

/// Data that a [`Weight`](crate::Weight) can hold: an optimizer can iterate over its numbers.
///
/// ```
/// use dl_core::{Chunk, Trainable};
/// let mut w = 1.0_f64;
/// w.update(&0.5, &mut [], &mut |chunk| {
///     if let Chunk::F64 { values, deltas, .. } = chunk {
///         values[0] -= deltas[0];
///     }
///     Ok(())
/// })?;
/// assert_eq!(w, 0.5);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be trained",
    note = "a weight holds `f32`, `f64`, a tensor (`Nd`), or a type of your own that implements `Trainable`; \
            `Nd::from` makes a tensor of an array or a `Vec`"
)]
pub trait Trainable: Data {
    /// A value of the same shape whose numbers are all zero: the initial state of an optimizer.
    fn zeros_like(&self) -> Self;

    /// Whether [`descend`](Trainable::descend) is implemented.
    ///
    /// ```
    /// use dl_core::Trainable;
    /// assert!(f64::DESCENDS);
    /// ```
    const DESCENDS: bool = false;

    /// Whether neither `descend` nor a clone of the value can panic, so that a step may change the
    /// value in place.
    #[doc(hidden)]
    const IN_PLACE: bool = false;

    /// Subtracts `rate · delta` in place, where the delta [belongs to this
    /// value](Data::check_delta): a step of plain gradient descent, which cannot fail. Where it is
    /// not implemented, the runtime calls [`update`](Trainable::update) on a copy.
    ///
    /// ```
    /// use dl_core::{Chunk, Data, Result, Trainable};
    ///
    /// #[derive(Clone)]
    /// struct Degrees(f64);
    ///
    /// impl Data for Degrees {
    ///     type Delta = f64;
    ///     fn one(&self) -> f64 {
    ///         1.0
    ///     }
    /// }
    ///
    /// impl Trainable for Degrees {
    ///     const DESCENDS: bool = true;
    ///     fn zeros_like(&self) -> Self {
    ///         Degrees(0.0)
    ///     }
    ///     fn descend(&mut self, rate: f64, delta: &f64) {
    ///         self.0 -= rate * delta;
    ///     }
    ///     fn update(&mut self, delta: &f64, _: &mut [Self], rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
    ///         rule(Chunk::F64 { values: &mut [self.0], deltas: &[*delta], slots: &mut [] })
    ///     }
    /// }
    ///
    /// let mut angle = Degrees(90.0);
    /// angle.descend(0.5, &20.0);
    /// assert_eq!(angle.0, 80.0);
    /// ```
    fn descend(&mut self, rate: f64, delta: &Self::Delta) {
        let _ = (rate, delta);
    }

    /// Whether the numbers are on the host.
    #[doc(hidden)]
    fn is_on_host(&self) -> bool {
        true
    }

    /// For a value whose numbers are not on the host: these, those of its delta and those of the
    /// optimizer's state, for formulas.
    ///
    /// # Errors
    /// A shape error if the delta or a slot does not fit.
    #[doc(hidden)]
    fn lazy_chunk(&self, delta: &Self::Delta, slots: &[Self]) -> Result<Option<LazyChunk>> {
        let _ = (delta, slots);
        Ok(None)
    }

    /// The value and the slots of such a chunk, after a step. Everything that can fail must fail
    /// here.
    ///
    /// # Errors
    /// Those of the device.
    #[doc(hidden)]
    fn computed(chunk: LazyChunk) -> Result<(Self, Vec<Self>)> {
        let _ = chunk;
        unreachable!("a type that has lazy chunks computes them")
    }

    /// Calls `rule` with the numbers of this value, of its delta and of the optimizer's state, in
    /// slices of equal length.
    ///
    /// With a sparse delta, `rule` is called for the affected rows only.
    ///
    /// # Errors
    /// Those of the rule, and a shape error if the delta does not fit. The value may then be partly
    /// changed: the runtime works on a copy, which it discards.
    fn update(
        &mut self,
        delta: &Self::Delta,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()>;

    /// For a value that stands for weights elsewhere: adds to the participants of a step the one
    /// that changes these weights, unless it is there already. Returns whether this is such a value:
    /// the optimizer of the step does not update it then. A value that the step updates may add a
    /// participant, too.
    #[doc(hidden)]
    fn enlist(&self, delta: &Self::Delta, participants: &mut Vec<Arc<dyn Participant>>) -> bool {
        let _ = (delta, participants);
        false
    }
}
