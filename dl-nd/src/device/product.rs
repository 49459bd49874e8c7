//! Matrix products on a device.

use super::{Product, View, Work};
use dl_core::Result;

/// The operands of a product: matrices, or batches of them with the same batch axes. A vector is a
/// row on the left and a column on the right.
pub(crate) struct Factors<'a> {
    pub(crate) a: View,
    pub(crate) b: View,
    pub(crate) row: Option<&'a View>,
    pub(crate) relu: bool,
    /// As [`Product::accumulators`] on this host.
    pub(crate) accumulators: usize,
}

/// The product, in this shape.
pub(crate) fn product(factors: Factors<'_>, shape: &[usize]) -> Result<View> {
    let Factors { a, b, row, relu, accumulators } = factors;
    let axes = a.shape.len();
    let (rows, depth, columns) = (a.shape[axes - 2], a.shape[axes - 1], b.shape[axes - 1]);
    let to = View::new(a.device(), a.dtype, &[&a.shape[..axes - 1], &[columns]].concat())?;
    // the condition of the host
    let is_inner = depth > 1 && a.strides[axes - 1] == 1 && b.strides[axes - 2] == 1 && (rows == 1 || columns == 1);
    let accumulators = if is_inner { accumulators } else { 0 };
    if !to.is_empty() {
        let work = Product { a: &a, b: &b, row, relu, to: &to, accumulators };
        to.device().launch(&Work::Product(work))?;
    }
    to.reshaped(shape)
}
