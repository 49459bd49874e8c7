//! Selection and addition at indices that lie on a device.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use super::{Gather, Scatter, ScatterOrder, View, Work};
use dl_core::{Error, Result};
use std::sync::{Arc, OnceLock};

/// The error for an index that is out of range, from its number in row-major order and its value.
pub type OutOfRange = Box<dyn FnOnce(usize, usize) -> Error + Send>;

/// The result of a check of indices, when it is there: an error, or none.
#[derive(Clone, Debug, Default)]
pub struct Check(Arc<OnceLock<Option<Error>>>);

impl Check {
    pub fn end(&self, error: Option<Error>) {
        // a check has one result, which is read by each wait that may be the first
        let _ = self.0.set(error);
    }

    pub fn error(&self) -> Option<&Error> {
        self.0.get()?.as_ref()
    }

    pub fn is_pending(&self) -> bool {
        self.0.get().is_none()
    }

    pub fn has_passed(&self) -> bool {
        matches!(self.0.get(), Some(None))
    }

    pub fn is(&self, other: &Check) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

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

    /// The same indices with a check that all are below a number, or equal to `except`. A read of what
    /// is computed from them fails with the error for the first one that is not.
    pub(crate) fn checked_below(mut self, below: usize, except: Option<usize>, error: OutOfRange) -> Result<View> {
        if !self.is_empty() {
            let check = self.device().check(&self, below, except, error)?;
            self.checks.push(check);
        }
        Ok(self)
    }
}
