//! What can be the forward value of a layer, and what can be trained.

use crate::error::{Error, Result};
use crate::layer::Layer;
use crate::optimizer::Chunk;
use crate::value::Value;

/// A type of forward values, together with the type of its derivatives.
///
/// [`Delta`](Data::Delta) is usually the type itself; it need not be: a dense table may have sparse rows as its delta. Deltas
/// are lazy layers, so what is asked here is how to *write* the sum of some of them and a multiple of one, not how to compute
/// them at once.
///
/// ```
/// use dl_core::{Data, Layer};
/// let sum = <f64 as Data>::sum(vec![Layer::constant(1.0), Layer::constant(2.5)]);
/// assert_eq!(dl_core::Differentiable::predict(&sum).wait()?, 3.5);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the value of a layer",
    note = "a layer holds `f32`, `f64`, a tensor (`Nd`), or a type of your own that implements `Data`"
)]
pub trait Data: Clone + Send + Sync + 'static {
    /// The type of derivatives with respect to a value of this type.
    type Delta: Data<Delta = Self::Delta>;

    /// The delta that a backward pass starts with: the derivative of a value with respect to itself, for every element 1.
    fn one(&self) -> Self::Delta;

    /// The sum of one or more layers, in their order.
    fn sum(terms: Vec<Layer<Self>>) -> Layer<Self>;

    /// The sum of some layers, in their order; of none, it is [`none`](Data::none).
    #[doc(hidden)]
    #[track_caller]
    fn sum_of(terms: impl Iterator<Item = Layer<Self>>) -> Layer<Self> {
        let terms: Vec<Layer<Self>> = terms.collect();
        if terms.is_empty() { Self::none() } else { Self::sum(terms) }
    }

    /// The sum of no layers: zero for scalars. Where it has no shape, as for tensors, it is a layer that fails when it is evaluated.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer};
    /// let nothing: Layer<f64> = std::iter::empty::<Layer<f64>>().sum();
    /// assert_eq!(nothing.predict().wait()?, 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn none() -> Layer<Self> {
        Layer::dynamic(|| async { Err(Error::invalid("the sum of no layers has no shape")) })
    }

    /// `factor` times a layer.
    fn scale(layer: &Layer<Self>, factor: f64) -> Layer<Self>;

    /// The memory that a value occupies, in bytes: what a pass counts in [`bytes_peak`](crate::Counters::bytes_peak).
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// What becomes of a value that nobody needs any more. A type with large buffers may leave them to the pass, for reuse: see [`buffers`](crate::buffers).
    fn recycle(self) {}

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

    /// Calls `rule` with the numbers of this value, of its delta and of the optimizer's state, in runs of equal length.
    ///
    /// A sparse delta calls it for the rows that it touches only.
    ///
    /// # Errors
    /// The rule's own, and a shape error when the delta does not fit. The value may then be half changed: the runtime works on
    /// a copy, which it throws away.
    fn update(
        &mut self,
        delta: &Self::Delta,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()>;
}
