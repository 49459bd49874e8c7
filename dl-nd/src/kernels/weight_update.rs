//! Updates of weights: in place on the host, by formulas on a device.

use crate::device::{Device, View, not_on_host};
use crate::fusion::{self, CHUNK_LEN};
use crate::tensor::{Element, Nd, Rank, Storage};
use dl_core::{Chunk, Data, Error, Lazy, LazyChunk, Participant, Result, Step, Term, Trainable, parallel};
use std::any::Any;
use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl<A: Element, D: Rank> Trainable for Nd<A, D> {
    fn zeros_like(&self) -> Self {
        fusion::filled_on(self.dim(), A::of(0.0), self.0.device().cloned())
    }

    const DESCENDS: bool = true;
    const IN_PLACE: bool = true;

    fn descend(&mut self, rate: f64, delta: &Self) {
        let delta = delta.0.as_standard_layout();
        let deltas = delta.as_slice().expect("in standard layout");
        let rate = A::of(rate);
        let mut chunks: Vec<_> = self.elements_mut().chunks_mut(CHUNK_LEN).zip(deltas.chunks(CHUNK_LEN)).collect();
        parallel::for_each_mut(&mut chunks, 0.3 * CHUNK_LEN as f64, |_, (values, deltas)| {
            fusion::sgd_update(rate, values, deltas)
        });
    }

    fn is_on_host(&self) -> bool {
        self.0.device().is_none()
    }

    fn lazy_chunk(&self, delta: &Self, slots: &[Self]) -> Result<Option<LazyChunk>> {
        if self.is_on_host() {
            return Ok(None);
        }
        self.check_shapes(delta, slots)?;
        self.check_delta(delta)?;
        let lazy = |x: &Self| Lazy::new(x.clone());
        Ok(Some(LazyChunk::new(lazy(self), lazy(delta), slots.iter().map(lazy))))
    }

    /// One kernel computes the value and the slots.
    fn computed(LazyChunk { value, slots, .. }: LazyChunk) -> Result<(Self, Vec<Self>)> {
        let tensor = |Term(x): Term<Lazy>| {
            let wrong = || Error::invalid("a formula of an optimizer has replaced numbers by those of another weight");
            x.downcast_ref::<Self>().cloned().ok_or_else(wrong)
        };
        let mut new = iter::once(value).chain(slots).map(tensor).collect::<Result<Vec<Self>>>()?;
        A::realize(&new.iter().collect::<Vec<_>>());
        for x in &mut new {
            *x = Nd(Storage::from_view(x.0.on_device()?.expect("the weight lies on a device")));
        }
        Ok((new.remove(0), new))
    }

    /// No weight is changed before the launches for the new values are queued, or if its delta
    /// depends on an index that is out of range.
    fn enlist(&self, delta: &Self, participants: &mut Vec<Arc<dyn Participant>>) -> bool {
        // a delta that cannot be computed is an error of the update
        if let (Some(device), Ok(Some(delta))) = (self.0.device(), delta.0.on_device()) {
            let known = participants.iter().find_map(|participant| {
                let known = participant.as_any()?.downcast_ref::<Submission>()?;
                Arc::ptr_eq(&known.device, device).then_some(known)
            });
            match known {
                Some(known) => known.add(delta),
                None => {
                    let deltas = Mutex::new(vec![delta]);
                    participants.push(Arc::new(Submission { device: device.clone(), deltas }));
                }
            }
        }
        false
    }

    fn update(
        &mut self,
        delta: &Self,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check_shapes(delta, slots)?;
        if let Some(device) = self.0.device().or(delta.0.device()) {
            return Err(not_on_host(&**device));
        }
        let delta = delta.0.as_standard_layout();
        let deltas = delta.as_slice().expect("in standard layout");
        let mut slots: Vec<&mut [A]> = slots.iter_mut().map(Self::elements_mut).collect();
        rule(A::chunk(self.elements_mut(), deltas, &mut slots))
    }
}

/// Refuses a step if the launches that compute the new values on a device cannot be queued, or if
/// these deltas have no meaning.
struct Submission {
    device: Arc<dyn Device>,
    deltas: Mutex<Vec<View>>,
}

impl Submission {
    fn deltas(&self) -> MutexGuard<'_, Vec<View>> {
        self.deltas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, delta: View) {
        self.deltas().push(delta);
    }
}

impl Participant for Submission {
    fn vote<'a>(&'a self, _: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        self.device.flush()?;
        View::verify(&self.deltas())?;
        Ok(Box::new(|| {}))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<A: Element, D: Rank> Nd<A, D> {
    /// Checks that a delta and the optimizer's state have the shape of this weight.
    fn check_shapes(&self, delta: &Self, slots: &[Self]) -> Result<()> {
        let weight = self.shape();
        if delta.shape() != weight {
            let delta = delta.shape();
            return Err(Error::shape(format!("a weight of shape {weight:?} has a delta of shape {delta:?}")));
        }
        slots.iter().map(Nd::shape).find(|slot| *slot != weight).map_or(Ok(()), |slot| {
            Err(Error::shape(format!(
                "the optimizer remembers this weight with the shape {slot:?}, but now its shape is {weight:?}"
            )))
        })
    }

    /// The elements in row-major order, in a uniquely owned buffer.
    fn elements_mut(&mut self) -> &mut [A] {
        let array = self.0.array_mut();
        if !array.is_standard_layout() {
            *array = array.as_standard_layout().into_owned().into_shared();
        }
        array.as_slice_mut().expect("in standard layout")
    }
}
