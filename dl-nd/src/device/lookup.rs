//! Selection and addition at indices that lie on a device.

use super::{Gather, Scatter, ScatterOrder, View, Work};
use dl_core::{Error, Result};

/// The error for an index that is out of range, from its number in row-major order and its value.
pub type OutOfRange = Box<dyn FnOnce(usize, usize) -> Error + Send>;

impl View {
    /// The view with another number of positions along each axis, at these distances.
    pub(crate) fn with_axes(&self, shape: Vec<usize>, strides: Vec<isize>) -> View {
        View { shape, strides, ..self.clone() }
    }

    /// The slices at these indices of an axis. The axes of the indices replace it.
    pub(crate) fn take(&self, axis: usize, at: &View) -> Result<View> {
        let around = |before: &[usize], after: &[usize]| [before, &at.shape, after].concat();
        let shape = around(&self.shape[..axis], &self.shape[axis + 1..]);
        let (before, after) = (&self.strides[..axis], &self.strides[axis + 1..]);
        let of = [before, &vec![0; at.shape.len()], after].concat();
        let indices = [&vec![0; before.len()], &at.strides[..], &vec![0; after.len()]].concat();
        let [of, at] = [self.with_axes(shape.clone(), of), at.with_axes(shape, indices)];
        of.gathered(&at, self.strides[axis], self.shape[axis], false)
    }

    /// One element along an axis for each index.
    pub(crate) fn gather(&self, axis: usize, at: &View) -> Result<View> {
        let mut strides = self.strides.clone();
        strides[axis] = 0;
        self.with_axes(at.shape.clone(), strides).gathered(at, self.strides[axis], self.shape[axis], false)
    }

    /// See [`Gather`].
    pub(crate) fn gathered(&self, at: &View, apart: isize, length: usize, lowest: bool) -> Result<View> {
        let to = View::new(self.device(), self.dtype, &at.shape)?;
        if !to.is_empty() {
            let gather = Gather { of: self, at, to: &to, apart, length, lowest };
            to.device().launch(&Work::Gather(gather))?;
        }
        Ok(to)
    }

    /// Adds slices at these indices of an axis, in the order of `kernels::add_taken`: the halves of
    /// the terms of a sum if these are many.
    pub(crate) fn add_taken(&self, axis: usize, at: View, parts: View) -> Result<()> {
        let count = at.len();
        let (before, after) = (&self.shape[..axis], &self.shape[axis + 1..]);
        let parts = parts.reshaped(&[before, &[count], after].concat())?;
        let at = at.contiguous()?;
        let at = at.with_axes(self.shape.clone(), vec![0; self.shape.len()]);
        self.add(axis, (at, 1), parts, count, ScatterOrder::InHalves)
    }

    /// Adds elements at their indices along an axis: in this order, or in turn if another axis is
    /// shorter.
    pub(crate) fn add_gathered(&self, axis: usize, at: &View, parts: View, order: ScatterOrder) -> Result<()> {
        let mut reached = self.clone();
        for other in (0..self.shape.len()).filter(|&other| other != axis) {
            reached.shape[other] = at.shape[other];
        }
        let order = if reached.shape == self.shape { order } else { ScatterOrder::InTurn };
        let (mut strides, apart) = (at.strides.clone(), at.strides[axis]);
        strides[axis] = 0;
        let (count, at) = (at.shape[axis], at.with_axes(reached.shape.clone(), strides));
        reached.add(axis, (at, apart), parts, count, order)
    }

    fn add(
        &self,
        axis: usize,
        (at, at_apart): (View, isize),
        parts: View,
        count: usize,
        order: ScatterOrder,
    ) -> Result<()> {
        if self.is_empty() || count == 0 {
            return Ok(());
        }
        let (mut strides, parts_apart) = (parts.strides.clone(), parts.strides[axis]);
        strides[axis] = 0;
        let parts = parts.with_axes(self.shape.clone(), strides);
        let scatter = Scatter { to: self, at: &at, parts: &parts, axis, count, at_apart, parts_apart, order };
        self.device().launch(&Work::Scatter(scatter))
    }

    /// Queues a check that all indices are below a number, or equal to `except`. The next read
    /// fails with the error for the first one that is not.
    pub(crate) fn check_below(&self, below: usize, except: Option<usize>, error: OutOfRange) -> Result<()> {
        if self.is_empty() { Ok(()) } else { self.device().check(self, below, except, error) }
    }
}
