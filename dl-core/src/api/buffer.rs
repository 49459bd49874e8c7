//! Buffers: state that training steps write but do not train.

use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::handle::Handle;
use crate::api::tape::Tape;
use crate::graph::data::Data;
use crate::graph::identity::{Effect, with_effect};
use crate::graph::layer::Layer;
use std::fmt;

/// State that is not trained: running statistics, a count of steps.
///
/// A buffer is a handle, as a [`Weight`](crate::Weight) is, and is read in the same way. No
/// gradient flows to it. Within a pass only the commit of a training step writes it, by
/// [`Layer::updating`]; if the step fails, the buffer is unchanged. Outside of passes,
/// [`set`](Buffer::set) and loading a file write it.
///
/// ```
/// use dl_core::{Buffer, Differentiable, Weight};
/// use dl_optim::Sgd;
/// let (w, steps) = (Weight::new(3.0_f64), Buffer::new(0.0_f64));
/// let loss = (&w * &w).updating(&steps, &steps.layer() + 1.0);
/// loss.predict().wait()?; // evaluates, and writes nothing
/// assert_eq!(steps.value(), 0.0);
/// loss.train(&Sgd::new(0.1)).wait()?;
/// assert_eq!(steps.value(), 1.0);
/// # dl_core::Result::Ok(())
/// ```
pub struct Buffer<T>(Handle<T>);

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Buffer(self.0.clone())
    }
}

impl<T: Data> Buffer<T> {
    /// Creates a buffer with this value.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Buffer(Handle::new(value, None))
    }

    /// A copy of the current value.
    pub fn value(&self) -> T {
        self.0.value()
    }

    /// Replaces the value. Passes that have read the old value continue with it.
    ///
    /// ```
    /// let seen = dl_core::Buffer::new(5.0_f32);
    /// seen.set(0.0);
    /// assert_eq!(seen.value(), 0.0);
    /// ```
    ///
    /// # Panics
    /// During a training step (inside an optimizer, for instance) that holds the lock of this
    /// buffer. That step then fails with an error that names the cause.
    pub fn set(&self, value: T) {
        self.0.set(value);
    }
}

impl<T: Data + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.value()).finish()
    }
}

impl<T: Data> Differentiable for Buffer<T> {
    type Data = T;
    type Delta = T::Delta;

    fn forward(&self) -> Do<Tape<T, T::Delta>> {
        self.layer().forward()
    }

    fn layer(&self) -> Layer<T> {
        self.0.to_layer()
    }
}

impl<T: Data> Layer<T> {
    /// This layer, with a buffer update as its side effect. When a training step that evaluates
    /// this layer commits, the buffer takes the value of `new`.
    ///
    /// `new` is evaluated together with this layer and reads the old value of the buffer. No
    /// gradient flows into it. A step that writes one buffer from two such layers fails. If the
    /// gradients of one tape are applied in several steps, the first step writes the buffer.
    ///
    /// ```
    /// use dl_core::{Buffer, Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// let (w, last) = (Weight::new(2.0_f64), Buffer::new(0.0_f64));
    /// let loss = (&w * &w).updating(&last, &w);
    /// loss.train(&Sgd::new(0.25)).wait()?;
    /// assert_eq!((w.value(), last.value()), (1.0, 2.0));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn updating<U: Data>(
        &self,
        buffer: &Buffer<U>,
        new: impl Differentiable<Data = U, Delta = U::Delta>,
    ) -> Layer<T> {
        let operands = [self.any().clone(), new.into_layer().into_any(), buffer.layer().into_any()];
        with_effect(Effect::Update, operands)
    }
}
