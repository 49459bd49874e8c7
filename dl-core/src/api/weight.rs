//! Weights: trainable parameters.

use crate::api::handle::Handle;
use crate::error::{Error, Result};
use crate::graph::data::Trainable;
use crate::graph::layer::Layer;
use crate::graph::lazy_chunk::{LazyChunk, PlacedChunk};
use crate::graph::participant::Participant;
use crate::graph::value::Value;
use crate::graph::variable::Variable;
use crate::graph::weight::{AnySlot, AnyWeight, InitialValue, UpdateRule, WeightHandle, WeightId, WeightState};
use crate::in_numbers;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A trainable parameter.
///
/// A weight is a handle: clones refer to the same parameter. Its value changes only in the commit
/// of a training step or by [`set`](Weight::set). A pass reads it once and uses that value
/// throughout.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// let w = Weight::new(1.0_f64);
/// (6.7 + &w + 5.5).train(&Sgd::new(1.0)).wait()?;
/// assert_eq!(w.value(), 0.0);
/// # dl_core::Result::Ok(())
/// ```
pub struct Weight<T>(Handle<T>);

impl<T> Weight<T> {
    /// The layer of this weight for use by the current thread.
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
    /// Creates a weight with this value.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Weight(Handle::new(value, Some(TypedWeight::<T>::WEIGHT)))
    }

    /// A copy of the current value.
    pub fn value(&self) -> T {
        self.0.value()
    }

    /// Replaces the value. Passes that have read the old value continue with it.
    ///
    /// ```
    /// let w = dl_core::Weight::new(1.0_f32);
    /// w.set(2.0);
    /// assert_eq!(w.value(), 2.0);
    /// ```
    ///
    /// # Panics
    /// During a training step (inside an optimizer, for instance) that holds the lock of this
    /// weight. That step then fails with an error that names the cause.
    pub fn set(&self, value: T) {
        self.0.set(value);
    }

    /// Excludes this weight from training: steps neither change it nor compute a delta for it.
    /// Explicit derivatives ([`gradient`](crate::Layer::gradient)) are not affected.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
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
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(1.0_f64);
    /// w.freeze();
    /// w.unfreeze();
    /// (&w * 2.0).train(&Sgd::new(0.25)).wait()?;
    /// assert_eq!(w.value(), 0.5);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn unfreeze(&self) {
        self.0.variable().set_frozen(false);
    }

    /// The unique id of this weight. Clones have the same id.
    ///
    /// ```
    /// let (a, b) = (dl_core::Weight::new(1.0_f64), dl_core::Weight::new(1.0_f64));
    /// assert!(a.id() == a.clone().id() && a.id() != b.id());
    /// ```
    pub fn id(&self) -> WeightId {
        WeightId(self.0.variable().id())
    }

    /// Whether this weight is [frozen](Weight::freeze).
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

impl<T: Trainable> From<&Weight<T>> for WeightHandle {
    fn from(weight: &Weight<T>) -> Self {
        WeightHandle(weight.to_layer().into_any())
    }
}

struct TypedWeight<T>(PhantomData<fn() -> T>);

impl<T: Trainable> TypedWeight<T> {
    const WEIGHT: &'static dyn AnyWeight = &TypedWeight::<T>(PhantomData);

    fn build_state(variable: &Variable, slots: Vec<T>, steps: u64) -> WeightState {
        let owner = Arc::downgrade(variable.alive());
        WeightState { owner, weight: Self::WEIGHT, slots: Box::new(slots), steps }
    }
}

impl<T: Trainable> AnyWeight for TypedWeight<T> {
    fn supports_sgd(&self, variable: &Variable, delta: &Value) -> bool {
        let fits = |value: &Value| {
            let value = value.get::<T>();
            value.is_on_host() && value.check_delta(delta.get()).is_ok()
        };
        T::DESCENDS && if T::IN_PLACE { variable.look(fits) } else { fits(&variable.read()) }
    }

    fn is_updated_in_place(&self) -> bool {
        T::IN_PLACE
    }

    fn sgd_in_place(&self, variable: &Variable, rate: f64, delta: &Value) {
        variable.change(|value| value.change(|value: &mut T| value.descend(rate, delta.get())));
    }

    fn sgd_copy(&self, variable: &Variable, rate: f64, delta: &Value) -> Value {
        let mut value = variable.read();
        value.change(|value: &mut T| value.descend(rate, delta.get()));
        value
    }

    fn prepare(
        &self,
        variable: &Variable,
        delta: &Value,
        rule: &dyn UpdateRule,
        state: Option<&WeightState>,
        participants: &mut Vec<Arc<dyn Participant>>,
    ) -> Result<(Value, Option<WeightState>)> {
        let mut value: T = variable.read().into();
        let (delta, wanted) = (delta.get::<T::Delta>(), rule.slots());
        if value.enlist(delta, participants) {
            return Ok((value.into_value(), None));
        }
        if wanted.is_empty() {
            match value.lazy_chunk(delta, &[])? {
                Some(chunk) => (value, _) = step_lazy(variable, chunk, rule, 1)?,
                None => value.update(delta, &mut [], &mut |chunk| rule.step(chunk, 1))?,
            }
            return Ok((value.into_value(), None));
        }
        let known = state.and_then(|state| Some((state.slots.downcast_ref::<Vec<T>>()?, state.steps)));
        let (mut slots, steps) = match known {
            Some((slots, _)) if slots.len() != wanted.len() => {
                let (slots, wanted) = (slots.len(), wanted.len());
                return Err(Error::invalid(format!(
                    "the optimizer has {slots} state slots for this weight, but its current settings require {wanted}"
                )));
            }
            // the state follows a weight that was moved
            Some((slots, steps)) => {
                let slots = slots.iter().map(|slot| slot.clone().beside(&value)).collect::<Result<Vec<T>>>()?;
                (slots, steps + 1)
            }
            None => {
                let initialize = |initial| match initial {
                    // Not clones of one value: their copy-on-write storage would be shared.
                    InitialValue::Zeros => value.zeros_like(),
                    InitialValue::Weight => value.clone(),
                };
                (wanted.iter().map(|slot| initialize(slot.initial)).collect(), 1)
            }
        };
        match value.lazy_chunk(delta, &slots)? {
            Some(chunk) => (value, slots) = step_lazy(variable, chunk, rule, steps)?,
            None => value.update(delta, &mut slots, &mut |chunk| rule.step(chunk, steps))?,
        }
        Ok((value.into_value(), Some(Self::build_state(variable, slots, steps))))
    }

    fn visit_chunks(
        &self,
        variable: &Variable,
        delta: &Value,
        only_lazy: bool,
        visit: &mut dyn FnMut(PlacedChunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut copy: T = variable.read().into();
        let delta = delta.get::<T::Delta>();
        match copy.lazy_chunk(delta, &[])? {
            Some(chunk) => visit(PlacedChunk::Lazy(chunk.at(variable.place()))),
            None if only_lazy => Ok(()),
            None => copy.update(delta, &mut [], &mut |chunk| visit(chunk.into())),
        }
    }

    fn slot(&self, state: &WeightState, place: usize) -> Option<Value> {
        let slots: &Vec<T> = state.slots.downcast_ref()?;
        slots.get(place).map(|slot| slot.clone().into_value())
    }

    fn slots(&self, state: &WeightState) -> Result<Vec<AnySlot>> {
        let slots = state.slots.downcast_ref::<Vec<T>>();
        slots.into_iter().flatten().map(|slot| Ok(Arc::new(slot.clone().on_host()?) as AnySlot)).collect()
    }

    fn new_state(&self, variable: &Variable, slots: &[AnySlot], steps: u64) -> Result<WeightState> {
        let of_weight_type = |slot: &AnySlot| slot.downcast_ref::<T>().cloned();
        let Some(slots) = slots.iter().map(of_weight_type).collect::<Option<Vec<T>>>() else {
            return Err(Error::invalid(format!(
                "state for a weight of type {} must be of the same type",
                std::any::type_name::<T>()
            )));
        };
        // A dry run on copies checks the shapes.
        let mut value: T = variable.read().into();
        if !value.is_on_host() {
            let slots = slots.into_iter().map(|slot| slot.beside(&value)).collect::<Result<Vec<T>>>()?;
            value.lazy_chunk(&value.one(), &slots)?;
            return Ok(Self::build_state(variable, slots, steps));
        }
        value.update(&value.one(), &mut slots.clone(), &mut |chunk| {
            let (numbers, unequal) = in_numbers!(chunk, |values, _, slots| {
                (values.len(), slots.iter().map(|slot| slot.len()).find(|&len| len != values.len()))
            });
            let mismatch = |len| Error::shape(format!("a slot of the state has {len} numbers, its weight {numbers}"));
            unequal.map_or(Ok(()), |len| Err(mismatch(len)))
        })?;
        Ok(Self::build_state(variable, slots, steps))
    }
}

/// The value and the slots of a lazy chunk after a step.
fn step_lazy<T: Trainable>(
    variable: &Variable,
    chunk: LazyChunk,
    rule: &dyn UpdateRule,
    steps: u64,
) -> Result<(T, Vec<T>)> {
    let mut chunk = chunk.at(variable.place());
    rule.step_lazy(&mut chunk, steps)?;
    T::computed(chunk)
}
