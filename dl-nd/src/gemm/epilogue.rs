//! Epilogues: pointwise operations that are applied to a tile of the result while it is in L1.

use super::microkernel::RawMatrix;
use crate::fusion::canonicalize_nan;
use crate::tensor::Element;
use dl_core::Unary;
use dl_core::simd::vectorized;
use std::slice::from_raw_parts_mut;

/// A pointwise operation on the elements of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Epilogue {
    None,
    /// [`Unary::Relu`].
    Relu,
}

impl Epilogue {
    /// Applies the operation to computed rows and columns.
    ///
    /// # Safety
    /// They must be readable and writable, and not aliased.
    #[inline(always)]
    pub(super) unsafe fn apply<A: Element>(self, rows: usize, columns: usize, c: RawMatrix<*mut A>) {
        if self == Epilogue::Relu {
            // SAFETY: guaranteed by the caller
            unsafe { relu(rows, columns, c) };
        }
    }
}

/// # Safety
/// That of [`Epilogue::apply`].
unsafe fn relu<A: Element>(rows: usize, columns: usize, c: RawMatrix<*mut A>) {
    let (rows, columns, c) = if c.column == 1 { (rows, columns, c) } else { (columns, rows, c.transposed()) };
    let relu = |x: &mut A| *x = canonicalize_nan(Unary::Relu.value(*x));
    vectorized(
        #[inline(always)]
        || {
            for row in 0..rows {
                if c.column == 1 {
                    // SAFETY: guaranteed by the caller; the row is contiguous
                    let row = unsafe { from_raw_parts_mut(c.at(row, 0).start, columns) };
                    row.iter_mut().for_each(relu);
                } else {
                    // SAFETY: guaranteed by the caller
                    (0..columns).for_each(|column| relu(unsafe { &mut *c.at(row, column).start }));
                }
            }
        },
    );
}
