//! What can be the forward value of a layer, and what can be trained.

use crate::error::Result;
use crate::graph::chunk::Chunk;
use crate::graph::delta::Delta;
use crate::graph::value::Value;

/// A type of forward values, together with the type of its derivatives.
///
/// [`Delta`](Data::Delta) is usually the type itself; it need not be: a dense table may have sparse
/// rows as its delta, and what has no derivative has [`Nothing`](crate::Nothing).
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
    /// itself, for every element 1.
    fn one(&self) -> Self::Delta;

    /// Whether a delta belongs to this value: a tensor's must have its shape. A delta or direction
    /// that is given by hand is looked at so.
    ///
    /// # Errors
    /// When it does not.
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

    /// A number in it that is infinite or NaN, if there is one: what
    /// [`Layer::refuse_non_finite`](crate::Layer::refuse_non_finite) refuses.
    ///
    /// ```
    /// use dl_core::Data;
    /// assert_eq!((1.0_f64.non_finite(), f64::INFINITY.non_finite()), (None, Some(f64::INFINITY)));
    /// ```
    fn non_finite(&self) -> Option<f64> {
        None
    }

    /// The memory that a value occupies, in bytes: what a pass counts in
    /// [`bytes_peak`](crate::Counters::bytes_peak).
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// Type and shape of a value, for whoever looks at a [record](crate::record) of a pass:
    /// `f32[16, 64]`. If nothing else is said, the name of the type.
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

    /// Makes values, which may be recipes, what they are. The runtime calls it, outside of its
    /// locks, with the values that it is about to hand out, or to step weights by: those of one
    /// type together, so that what they share is computed once.
    ///
    /// ```
    /// use dl_core::Data;
    /// f64::settle(&[&1.0, &2.0]); // plain numbers are what they are
    /// ```
    fn settle(values: &[&Self]) {
        let _ = values;
    }

    /// The same value, as a weight or a buffer keeps it. What is computed with it may depend on how
    /// it lies in memory, to the last bit, and a checkpoint knows nothing of that: so it lies there
    /// in one way.
    #[doc(hidden)]
    fn at_rest(self) -> Self {
        self
    }

    /// How the executor stores such a value.
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

/// Data that a [`Weight`](crate::Weight) can hold: an optimizer can walk over its numbers.
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
    note = "a weight holds `f32`, `f64`, a tensor (`Nd`), or a type of your own that implements `Trainable`"
)]
pub trait Trainable: Data {
    /// A value of the same shape whose numbers are all zero: the fresh state of an optimizer.
    fn zeros_like(&self) -> Self;

    /// Whether [`descend`](Trainable::descend) is there.
    ///
    /// ```
    /// use dl_core::Trainable;
    /// assert!(f64::DESCENDS);
    /// ```
    const DESCENDS: bool = false;

    /// Whether that cannot panic, nor a clone of the value, so that a step may change the value
    /// where it is.
    #[doc(hidden)]
    const IN_PLACE: bool = false;

    /// Takes `rate · delta` away in place, for a delta that [belongs to this
    /// value](Data::check_delta): a step of plain gradient descent, which cannot fail. Where it is
    /// not there, the runtime works on a copy, with [`update`](Trainable::update).
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

    /// Calls `rule` with the numbers of this value, of its delta and of the optimizer's state, in
    /// runs of equal length.
    ///
    /// A sparse delta calls it for the rows that it touches only.
    ///
    /// # Errors
    /// The rule's own, and a shape error when the delta does not fit. The value may then be half
    /// changed: the runtime works on a copy, which it throws away.
    fn update(
        &mut self,
        delta: &Self::Delta,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()>;
}
