//! Exponential moving averages of weights.

use crate::api::snapshot::Snapshot;
use crate::api::weight::{Weight, WeightId};
use crate::error::Result;
use crate::graph::data::Trainable;
use crate::math::number::Number;
use crate::optim::validate::Allowed;
use crate::step::memory::{Memory, Notes, Slot, StateMap, WeightState};
use crate::step::optimizer::{Optimizer, check};
use crate::step::training_step::{Chunk, Step};
use std::sync::Arc;

/// An optimizer that keeps an exponential moving average of every weight: after each step of a
/// weight, `a ← decay · a + (1 − decay) · w`, where `a` begins with the weight as it was before its
/// first step.
///
/// The averages stand beside the weights, and change with them or not at all. A pass can be
/// [evaluated on them](Ema::snapshot) while training goes on; one of them can be
/// [read](Ema::average), and [set](Weight::set) as the final value. On a sparse delta it is lazy:
/// the averages of rows that are not touched stay as they are.
///
/// Clones share the averages. So keep one where parts are put around it; inside of
/// [`Groups`](crate::Groups), which have a memory of their own, the averages cannot be read: put it
/// around the groups.
///
/// ```
/// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
/// let w = Weight::new(1.0_f64);
/// let ema = Sgd::new(0.1).ema(0.5);
/// let optimizer = ema.clone().clip_norm(1.0);
/// for _ in 0..2 {
///     (&w * 1.0).train(&optimizer).wait()?;
/// }
/// assert!((w.value() - 0.8).abs() < 1e-6);
/// let averaged = (&w * 10.0).predict().on(&ema.snapshot()?).wait()?;
/// assert!((averaged - 8.75).abs() < 1e-5);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Ema<O> {
    inner: O,
    decay: f64,
    /// Those of the inner optimizer, and one more.
    slots: Arc<[Slot]>,
    /// Used if the inner optimizer has none.
    memory: Memory,
}

impl<O: Optimizer> Ema<O> {
    pub(crate) fn new(inner: O, decay: f64) -> Self {
        Self::around(inner, decay, Memory::new())
    }

    fn around(inner: O, decay: f64, memory: Memory) -> Self {
        let slots = inner.slots().iter().copied().chain([Slot::copy_of_weight("ema")]).collect();
        Ema { inner, decay, slots, memory }
    }

    fn kept(&self) -> &Memory {
        self.inner.memory().unwrap_or(&self.memory)
    }

    /// Which slot of this weight is the average.
    fn place(&self, weight: WeightId) -> usize {
        self.inner.for_weight(weight).map_or(self.inner.slots().len(), |inner| inner.slots().len())
    }

    /// The average of a weight, if it has taken a step.
    ///
    /// ```
    /// use dl_core::{Adam, Differentiable, Optimizer, Weight};
    /// let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1).ema(0.999));
    /// assert_eq!(adam.average(&w)?, None);
    /// w.train(&adam).wait()?;
    /// w.set(adam.average(&w)?.unwrap());
    /// assert!((w.value() - 0.9999).abs() < 1e-8);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// In the middle of a step of the same optimizer.
    pub fn average<T: Trainable>(&self, weight: &Weight<T>) -> Result<Option<T>> {
        let place = self.place(weight.id());
        let states = self.kept().lock()?;
        let slots = states.by_weight.get(&weight.id().0).and_then(|state| state.slots.downcast_ref::<Vec<T>>());
        Ok(slots.and_then(|slots| slots.get(place).cloned()))
    }

    /// All weights and buffers as they are now, but for the weights that have an average: a pass
    /// [on](crate::Do::on) it sees that.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let (w, sgd) = (Weight::new(1.0_f64), Sgd::new(0.5).ema(0.5));
    /// w.train(&sgd).wait()?;
    /// assert_eq!((w.value(), w.predict().on(&sgd.snapshot()?).wait()?), (0.5, 0.75));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// In the middle of a step of the same optimizer.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let states = self.kept().lock()?;
        let average = |(&weight, state): (&u64, &WeightState)| {
            let alive = state.owner.strong_count() > 0;
            let value = state.weight.slot(state, self.place(WeightId(weight))).filter(|_| alive)?;
            Some((weight, value))
        };
        // steps with these averages wait for the memory, so no weight is half a step ahead
        let StateMap { by_weight, .. } = &*states;
        Ok(Snapshot::with(by_weight.iter().filter_map(average).collect()))
    }
}

impl<O: Optimizer> Optimizer for Ema<O> {
    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn memory(&self) -> Option<&Memory> {
        Some(self.kept())
    }

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        check("the decay of the averages", self.decay, Allowed::UpTo(1.0))?;
        let begun = self.inner.begin(step)?;
        Ok(begun.map(|inner| Box::new(Ema::around(inner, self.decay, self.memory.clone())) as _))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        let inner = self.inner.for_weight(weight)?;
        Some(Box::new(Ema::around(inner, self.decay, self.memory.clone())))
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        crate::step::training_step::in_numbers!(chunk, |values, deltas, slots| self
            .step_and_average(values, deltas, slots, steps))
    }

    fn decays_weights(&self) -> bool {
        self.inner.decays_weights()
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        self.inner.notes()
    }

    fn kind(&self) -> String {
        format!("Ema({})", self.inner.kind())
    }
}

impl<O: Optimizer> Ema<O> {
    fn step_and_average<A: Number>(
        &self,
        values: &mut [A],
        deltas: &[A],
        slots: &mut [&mut [A]],
        steps: u64,
    ) -> Result<()> {
        let (averages, slots) = slots.split_last_mut().expect(crate::optim::rule::SLOTS);
        let mut slots: Vec<&mut [A]> = slots.iter_mut().map(|slot| &mut **slot).collect();
        self.inner.step(A::chunk(values, deltas, &mut slots), steps)?;
        let [kept, new] = [self.decay, 1.0 - self.decay].map(A::of);
        for (average, &w) in averages.iter_mut().zip(&*values) {
            *average = kept * *average + new * w;
        }
        Ok(())
    }
}
