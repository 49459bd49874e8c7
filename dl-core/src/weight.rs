//! Weights: trainable variables.

use crate::data::Trainable;
use crate::error::Result;
use crate::layer::Layer;
use crate::node::Variable;
use crate::optimizer::{Chunk, Optimizer, Shelf};
use crate::value::Value;
use crate::variable::Handle;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A trainable variable.
///
/// It is a handle: clones are the same variable. Its value changes only in the commit of a training step (or by
/// [`set`](Weight::set)); a pass reads it once and sees that value throughout.
///
/// ```
/// use dl_core::{Differentiable, Sgd, Weight};
/// let w = Weight::new(1.0_f64);
/// (6.7 + &w + 5.5).train(&Sgd::new(1.0)).wait()?;
/// assert_eq!(w.value(), 0.0);
/// # dl_core::Result::Ok(())
/// ```
pub struct Weight<T>(Handle<T>);

impl<T> Weight<T> {
    /// The layer of this weight, for use by this thread.
    #[inline]
    pub(crate) fn to_layer(&self) -> Layer<T> {
        self.0.to_layer()
    }
}

impl<T> Clone for Weight<T> {
    fn clone(&self) -> Self {
        Weight(self.0.clone())
    }
}

impl<T: Trainable> Weight<T> {
    /// A new variable with this value.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Weight(Handle::first(value, &Typed::<T>(PhantomData)))
    }

    /// A copy of the present value.
    pub fn value(&self) -> T {
        self.0.value()
    }

    /// Replaces the value. Passes that have read the old one go on with it.
    ///
    /// ```
    /// let w = dl_core::Weight::new(1.0_f32);
    /// w.set(2.0);
    /// assert_eq!(w.value(), 2.0);
    /// ```
    pub fn set(&self, value: T) {
        self.0.set(value);
    }

    /// From now on no gradient flows to this weight, and no step changes it.
    ///
    /// ```
    /// use dl_core::{Differentiable, Sgd, Weight};
    /// let w = Weight::new(1.0_f64);
    /// w.freeze();
    /// (&w * 2.0).train(&Sgd::new(1.0)).wait()?;
    /// assert_eq!(w.value(), 1.0);
    /// w.unfreeze();
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn freeze(&self) {
        self.0.variable().set_frozen(true);
    }

    /// Undoes [`freeze`](Weight::freeze).
    pub fn unfreeze(&self) {
        self.0.variable().set_frozen(false);
    }

    /// Whether it is [frozen](Weight::freeze).
    ///
    /// ```
    /// assert!(!dl_core::Weight::new(1.0_f64).is_frozen());
    /// ```
    pub fn is_frozen(&self) -> bool {
        self.0.variable().frozen()
    }
}

impl<T: Trainable + fmt::Debug> fmt::Debug for Weight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Weight").field(&self.value()).finish()
    }
}

/// What has to know the type of a weight.
pub(crate) trait AnyWeight: Send + Sync {
    fn name(&self) -> &'static str;

    /// What the optimizer makes of the value and of its own state, in fresh copies. Changes nothing.
    fn propose(
        &self,
        variable: &Variable,
        delta: &Value,
        optimizer: &dyn Optimizer,
        state: Option<&Shelf>,
    ) -> Result<(Value, Option<Shelf>)>;
}

struct Typed<T>(PhantomData<fn() -> T>);

impl<T: Trainable> AnyWeight for Typed<T> {
    fn name(&self) -> &'static str {
        "weight"
    }

    fn propose(
        &self,
        variable: &Variable,
        delta: &Value,
        optimizer: &dyn Optimizer,
        state: Option<&Shelf>,
    ) -> Result<(Value, Option<Shelf>)> {
        let mut value: T = variable.read().into();
        if optimizer.slots() == 0 && state.is_none() {
            value.update(delta.get::<T::Delta>(), &mut [], &mut |chunk: Chunk<'_>| optimizer.step(chunk, 1))?;
            return Ok((value.into_value(), None));
        }
        let known = state.and_then(|shelf| Some((shelf.slots.downcast_ref::<Vec<T>>()?, shelf.steps)));
        let (mut slots, steps) = match known {
            Some((slots, steps)) => (slots.clone(), steps + 1),
            // not clones of one value: they have nothing to share
            None => ((0..optimizer.slots()).map(|_| value.zeros_like()).collect(), 1),
        };
        value.update(delta.get::<T::Delta>(), &mut slots, &mut |chunk: Chunk<'_>| optimizer.step(chunk, steps))?;
        let owner = || Arc::downgrade(variable.alive());
        let shelf = (!slots.is_empty()).then(|| Shelf { owner: owner(), slots: Box::new(slots), steps });
        Ok((value.into_value(), shelf))
    }
}
