//! Scans and sorts along an axis on a device.

use super::{Scan, ScanOp, Sort, View, Work};
use dl_core::{DType, Result};

impl View {
    /// The first `count` of the indices that sort the elements along an axis.
    pub(crate) fn argsort(self, axis: usize, count: usize, descending: bool) -> Result<View> {
        let of = self.contiguous()?;
        let mut shape = of.shape.clone();
        shape[axis] = count;
        let to = View::new(of.device(), DType::U64, &shape)?;
        if !to.is_empty() {
            let (before, len) = (of.shape[..axis].iter().product(), of.shape[axis]);
            let after = of.shape[axis + 1..].iter().product();
            let sort = Sort { of: &of, to: &to, before, len, after, count, descending };
            to.device().launch(&Work::Sort(sort))?;
        }
        Ok(to)
    }

    /// The scan along an axis. `with` is the second operand of a recurrence, of the same shape. An
    /// extremum of all leaves the axis with length 1.
    pub(crate) fn scan(self, op: ScanOp, with: Option<View>, axis: usize, from_end: bool) -> Result<View> {
        let of = self.contiguous()?;
        let with = with.map_or(Ok(of.clone()), View::contiguous)?;
        let mut shape = of.shape.clone();
        let dtype = match op {
            ScanOp::ExtremeSoFar { .. } => DType::U64,
            ScanOp::Extreme { .. } => {
                shape[axis] = 1;
                DType::U64
            }
            _ => of.dtype,
        };
        let to = View::new(of.device(), dtype, &shape)?;
        if !of.is_empty() {
            let (before, len) = (of.shape[..axis].iter().product(), of.shape[axis]);
            let after = of.shape[axis + 1..].iter().product();
            let scan = Scan { op, of: &of, with: &with, to: &to, before, len, after, from_end };
            to.device().launch(&Work::Scan(scan))?;
        }
        Ok(to)
    }
}
