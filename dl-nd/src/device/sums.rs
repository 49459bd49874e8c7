//! Reductions on a device, in the order of those of the host for tensors in row-major order.

use super::{Fold, Sum, SumOrder, View, Work};
use dl_core::{Binary, Result};

/// As `fusion::RUN_LEN` on the host.
const RUN_LEN: usize = 128;

impl View {
    /// The sum of all elements, as a tensor of this shape with one element.
    pub(crate) fn sum_all(self, shape: &[usize]) -> Result<View> {
        let of = self.contiguous()?;
        let (to, len) = (View::new(of.device(), of.dtype, shape)?, of.len());
        match len {
            0 => to.fill(0.0)?,
            1..=RUN_LEN => {
                let order = SumOrder::InEights;
                of.device().launch(&Work::Sum(Sum { of: &of, to: &to, before: 1, len, after: 1, order }))?;
            }
            _ => of.device().launch(&Work::SumAll { of: &of, to: &to })?,
        }
        Ok(to)
    }

    /// The sums along an axis, which is kept with length 1.
    pub(crate) fn sum_along(self, axis: usize) -> Result<View> {
        let (len, is_last) = (self.shape[axis], axis + 1 == self.shape.len());
        let is_inner = self.shape[axis + 1..].iter().all(|&length| length == 1);
        // `ndarray` sums adjacent elements in eight accumulators
        let order = match is_inner && (len > RUN_LEN || is_last && axis > 0) {
            true => SumOrder::InEights,
            false => SumOrder::InTurn,
        };
        self.sum_in_order(axis, order)
    }

    /// The same in this order.
    pub(crate) fn sum_in_order(self, axis: usize, order: SumOrder) -> Result<View> {
        let of = self.contiguous()?;
        let (before, len) = (of.shape[..axis].iter().product(), of.shape[axis]);
        let after = of.shape[axis + 1..].iter().product();
        let mut shape = of.shape.clone();
        shape[axis] = 1;
        let to = View::new(of.device(), of.dtype, &shape)?;
        if len == 0 {
            to.fill(0.0)?;
        } else if !to.is_empty() {
            of.device().launch(&Work::Sum(Sum { of: &of, to: &to, before, len, after, order }))?;
        }
        Ok(to)
    }

    /// The sums along these axes, which are kept with length 1.
    pub(crate) fn sum_axes(self, axes: &[usize]) -> Result<View> {
        if axes.len() == self.shape.len() {
            let shape = vec![1; self.shape.len()];
            return self.sum_all(&shape);
        }
        axes.iter().try_fold(self, |sum, &axis| sum.sum_along(axis))
    }

    /// The product or the extrema along these axes, which are kept with length 1; `empty` if there
    /// is nothing to fold. Axes beside each other are folded together, and a long fold is divided.
    pub(crate) fn fold_axes(self, op: Binary, axes: &[usize], empty: f64) -> Result<View> {
        let mut of = self.contiguous()?;
        let mut rest = axes.to_vec();
        while let Some(&first) = rest.first() {
            let start = (0..first).rev().take_while(|axis| rest.contains(axis)).last().unwrap_or(first);
            let end = (start..of.shape.len()).take_while(|axis| rest.contains(axis)).count() + start;
            let mut shape = of.shape.clone();
            shape[start..end].fill(1);
            let [before, rows, after] =
                [&of.shape[..start], &of.shape[start..end], &of.shape[end..]].map(|lengths| lengths.iter().product());
            of = of.fold(op, [before, rows, after], empty)?.reshaped(&shape)?;
            rest.retain(|axis| !(start..end).contains(axis));
        }
        Ok(of)
    }

    fn fold(self, op: Binary, [before, rows, after]: [usize; 3], empty: f64) -> Result<View> {
        /// As on the host: see `kernels::fold_axes`.
        const CHUNK_LEN: usize = 1 << 15;
        const MIN_ROWS: usize = 16;
        if self.is_empty() {
            let to = View::new(self.device(), self.dtype, &[before * after])?;
            to.fill(empty)?;
            return Ok(to);
        }
        let part = (CHUNK_LEN / after).max(MIN_ROWS);
        let part = if rows > 2 * part { part } else { rows };
        let parts = rows.div_ceil(part);
        let to = View::new(self.device(), self.dtype, &[before * parts * after])?;
        self.device().launch(&Work::Fold(Fold { of: &self, to: &to, op, before, rows, after, part }))?;
        if parts == 1 { Ok(to) } else { to.fold(op, [before, parts, after], empty) }
    }
}
