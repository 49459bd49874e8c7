//! In-place updates of weights.

use crate::fusion::{self, CHUNK_LEN};
use crate::tensor::{Element, Expr, Nd, Rank, Storage};
use dl_core::{Binary, Chunk, Error, Result, Trainable, parallel};

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

    fn descended(&self, rate: f64, delta: &Self) -> Result<Option<Self>> {
        let step = Expr::WithNumber { op: Binary::Mul, number: A::of(rate), left: true, x: delta.clone() };
        let new = Expr::Binary(Binary::Sub, self.clone(), step.of_shape(self.dim())).of_shape(self.dim());
        Ok(new.0.on_device()?.map(|view| Nd(Storage::from_view(view))))
    }

    fn is_on_host(&self) -> bool {
        self.0.device().is_none()
    }

    fn update(
        &mut self,
        delta: &Self,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        if delta.shape() != self.shape() {
            let (weight, delta) = (self.shape(), delta.shape());
            return Err(Error::shape(format!("a weight of shape {weight:?} has a delta of shape {delta:?}")));
        }
        if let Some(slot) = slots.iter().find(|slot| slot.shape() != self.shape()) {
            let (weight, slot) = (self.shape(), slot.shape());
            return Err(Error::shape(format!(
                "the optimizer remembers this weight with the shape {slot:?}, but now its shape is {weight:?}"
            )));
        }
        if let Some(device) = self.0.device().or(delta.0.device()) {
            return Err(Error::invalid(format!(
                "the weight or its delta lies on {}, where plain `Sgd` is the only optimizer yet",
                device.name()
            )));
        }
        let delta = delta.0.as_standard_layout();
        let deltas = delta.as_slice().expect("in standard layout");
        let mut slots: Vec<&mut [A]> = slots.iter_mut().map(Self::elements_mut).collect();
        rule(A::chunk(self.elements_mut(), deltas, &mut slots))
    }
}

impl<A: Element, D: Rank> Nd<A, D> {
    /// The elements in row-major order, in a uniquely owned buffer.
    fn elements_mut(&mut self) -> &mut [A] {
        let array = self.0.array_mut();
        if !array.is_standard_layout() {
            *array = array.as_standard_layout().into_owned().into_shared();
        }
        array.as_slice_mut().expect("in standard layout")
    }
}
