//! Exponential moving averages of weights.

use crate::validate::{Allowed, check};
use dl_core::{
    Algebra, Chunk, ChunkElement, LazyChunk, Memory, Optimizer, Result, Slot, Snapshot, Step, Term, Trainable, Weight,
    WeightId, forward_optimizer, in_numbers,
};
use std::sync::Arc;

/// An optimizer that keeps an exponential moving average of every weight: after each step of a
/// weight, `a ← decay · a + (1 − decay) · w`, where `a` starts with the value of the weight before
/// its first step.
///
/// The averages are optimizer state: a step commits them together with the weights, or neither. A
/// pass can be [evaluated on them](Ema::snapshot) while training continues; an average can be
/// [read](Ema::average), and [set](Weight::set) as the final value. On a sparse delta it is *lazy*:
/// the averages of rows that the delta leaves out are not changed.
///
/// Clones share the averages. If other transformations wrap the optimizer, keep a clone to read the
/// averages. Do not put it inside [`Groups`](crate::Groups): they have a memory of their own, so
/// the averages could not be read. Put it around the groups instead.
///
/// ```
/// use dl_core::{Differentiable, Optimizer, Weight};
/// use dl_optim::{OptimizerExt, Sgd};
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
    /// The slots of the inner optimizer, and then the average.
    slots: Arc<[Slot]>,
    /// The memory, if the inner optimizer has none.
    memory: Memory,
}

impl<O: Optimizer> Ema<O> {
    pub(crate) fn new(inner: O, decay: f64) -> Self {
        Self::wrap(inner, decay, Memory::new())
    }

    fn wrap(inner: O, decay: f64, memory: Memory) -> Self {
        let slots = inner.slots().iter().copied().chain([Slot::copy_of_weight("ema")]).collect();
        Ema { inner, decay, slots, memory }
    }

    fn effective_memory(&self) -> &Memory {
        self.inner.memory().unwrap_or(&self.memory)
    }

    /// The index of the slot of this weight that holds the average.
    fn average_slot(&self, weight: WeightId) -> usize {
        self.inner.for_weight(weight).map_or(self.inner.slots().len(), |inner| inner.slots().len())
    }

    /// The average of a weight; none before its first step.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Weight};
    /// use dl_optim::{OptimizerExt, Adam};
    /// let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1).ema(0.999));
    /// assert_eq!(adam.average(&w)?, None);
    /// w.train(&adam).wait()?;
    /// w.set(adam.average(&w)?.unwrap());
    /// assert!((w.value() - 0.9999).abs() < 1e-8);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If it is called during a step of the same optimizer.
    pub fn average<T: Trainable>(&self, weight: &Weight<T>) -> Result<Option<T>> {
        self.effective_memory().slot(weight.id(), self.average_slot(weight.id()))
    }

    /// A snapshot of all weights and buffers in which each weight that has an average is replaced
    /// by the average. A pass can be evaluated [on](dl_core::Do::on) it.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let (w, sgd) = (Weight::new(1.0_f64), Sgd::new(0.5).ema(0.5));
    /// w.train(&sgd).wait()?;
    /// assert_eq!((w.value(), w.predict().on(&sgd.snapshot()?).wait()?), (0.5, 0.75));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If it is called during a step of the same optimizer.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::of_slots(self.effective_memory(), |weight| self.average_slot(weight))
    }
}

impl<O: Optimizer> Optimizer for Ema<O> {
    forward_optimizer!(this => this.inner; decays_weights notes);

    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn memory(&self) -> Option<&Memory> {
        Some(self.effective_memory())
    }

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        check("the decay of the averages", self.decay, Allowed::UpTo(1.0))?;
        let begun = self.inner.begin(step)?;
        Ok(begun.map(|inner| Box::new(Ema::wrap(inner, self.decay, self.memory.clone())) as _))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        let inner = self.inner.for_weight(weight)?;
        Some(Box::new(Ema::wrap(inner, self.decay, self.memory.clone())))
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        in_numbers!(chunk, |values, deltas, slots| self.step_and_average(values, deltas, slots, steps))
    }

    fn step_lazy(&self, chunk: &mut LazyChunk, steps: u64) -> Result<()> {
        let average = chunk.slots.pop().expect(crate::rule::SLOTS);
        self.inner.step_lazy(chunk, steps)?;
        chunk.slots.push(averaged(self.decay, &average, &chunk.value));
        Ok(())
    }

    fn kind(&self) -> String {
        format!("Ema({})", self.inner.kind())
    }
}

impl<O: Optimizer> Ema<O> {
    fn step_and_average<A: ChunkElement>(
        &self,
        values: &mut [A],
        deltas: &[A],
        slots: &mut [&mut [A]],
        steps: u64,
    ) -> Result<()> {
        let (averages, slots) = slots.split_last_mut().expect(crate::rule::SLOTS);
        let mut slots: Vec<&mut [A]> = slots.iter_mut().map(|slot| &mut **slot).collect();
        self.inner.step(A::chunk(values, deltas, &mut slots), steps)?;
        for (average, &w) in averages.iter_mut().zip(&*values) {
            *average = averaged(self.decay, &Term(*average), &Term(w)).0;
        }
        Ok(())
    }
}

#[inline(always)]
fn averaged<A: Algebra>(decay: f64, average: &Term<A>, w: &Term<A>) -> Term<A> {
    decay * average + (1.0 - decay) * w
}
