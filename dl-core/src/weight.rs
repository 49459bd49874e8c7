//! Weights: trainable variables.

use crate::data::Trainable;
use crate::error::Result;
use crate::layer::Layer;
use crate::node::{AnyLayer, Expression};
use crate::optimizer::{Chunk, Optimizer, Shelf};
use crate::value::Value;
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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
pub struct Weight<T> {
    variable: Arc<Variable>,
    layer: Layer<T>,
}

impl<T> Clone for Weight<T> {
    fn clone(&self) -> Self {
        Weight { variable: self.variable.clone(), layer: self.layer.clone() }
    }
}

impl<T: Trainable> Weight<T> {
    /// A new variable with this value.
    #[track_caller]
    pub fn new(value: T) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let place = Location::caller();
        let variable = Arc::new(Variable {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            value: Mutex::new(value.into_value()),
            frozen: AtomicBool::new(false),
            commit: Mutex::new(()),
            place,
        });
        let erased = Arc::new(Typed::<T> { variable: variable.clone(), data: std::marker::PhantomData });
        let layer = Layer::from_any(AnyLayer::new::<T>(Expression::Weight(erased), place));
        Weight { variable, layer }
    }

    /// A copy of the present value.
    pub fn value(&self) -> T {
        self.variable.read().get::<T>().clone()
    }

    /// Replaces the value. Passes that have read the old one go on with it.
    ///
    /// ```
    /// let w = dl_core::Weight::new(1.0_f32);
    /// w.set(2.0);
    /// assert_eq!(w.value(), 2.0);
    /// ```
    pub fn set(&self, value: T) {
        let commit = self.variable.lock();
        let old = self.variable.write(value.into_value());
        drop(commit);
        drop(old);
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
        self.variable.frozen.store(true, Ordering::Relaxed);
    }

    /// Undoes [`freeze`](Weight::freeze).
    pub fn unfreeze(&self) {
        self.variable.frozen.store(false, Ordering::Relaxed);
    }

    pub(crate) fn as_layer(&self) -> &Layer<T> {
        &self.layer
    }
}

impl<T: Trainable + fmt::Debug> fmt::Debug for Weight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Weight").field(&self.value()).finish()
    }
}

/// What a weight consists of, whatever its type.
pub(crate) struct Variable {
    id: u64,
    value: Mutex<Value>,
    frozen: AtomicBool,
    /// Held during a commit, together with those of all weights of the step, taken in the order of their numbers.
    commit: Mutex<()>,
    place: &'static Location<'static>,
}

impl Variable {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.place
    }

    pub(crate) fn frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    pub(crate) fn read(&self) -> Value {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts the new value in its place, and hands back the old one: its destructor may be the user's.
    #[must_use = "the old value is dropped by whoever can afford it"]
    pub(crate) fn write(&self, value: Value) -> Value {
        std::mem::replace(&mut *self.value.lock().unwrap_or_else(PoisonError::into_inner), value)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A weight with its type forgotten.
pub(crate) trait AnyWeight: Send + Sync {
    fn variable(&self) -> &Arc<Variable>;

    /// What the optimizer makes of the value and of its own state, in fresh copies. Changes nothing.
    fn propose(
        &self,
        delta: &Value,
        optimizer: &dyn Optimizer,
        state: Option<&Shelf>,
    ) -> Result<(Value, Option<Shelf>)>;
}

struct Typed<T> {
    variable: Arc<Variable>,
    data: std::marker::PhantomData<fn() -> T>,
}

impl<T: Trainable> AnyWeight for Typed<T> {
    fn variable(&self) -> &Arc<Variable> {
        &self.variable
    }

    fn propose(
        &self,
        delta: &Value,
        optimizer: &dyn Optimizer,
        state: Option<&Shelf>,
    ) -> Result<(Value, Option<Shelf>)> {
        let mut value = self.variable.read().get::<T>().clone();
        let mut slots = match state.and_then(|shelf| shelf.slots.downcast_ref::<Vec<T>>()) {
            Some(slots) => slots.clone(),
            None => vec![value.zeros_like(); optimizer.slots()],
        };
        value.update(delta.get::<T::Delta>(), &mut slots, &mut |chunk: Chunk<'_>| optimizer.step(chunk))?;
        let shelf = (!slots.is_empty()).then(|| {
            let owner: Weak<Variable> = Arc::downgrade(&self.variable);
            let owner: Weak<dyn Any + Send + Sync> = owner;
            Shelf { owner, slots: Box::new(slots) }
        });
        Ok((value.into_value(), shelf))
    }
}
