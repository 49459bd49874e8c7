//! Shapes: broadcasting, and bounds on the size of a tensor.

use super::Rank;
use dl_core::{Error, Result};
use ndarray::Dimension;

/// Checks that a tensor of this shape fits into memory: the product of the nonzero lengths, in
/// bytes, must not exceed `isize::MAX`, and an allocation of 1 GiB or more must succeed.
///
/// ```
/// assert!(dl_nd::check_size::<f32>(&[1000, 1000]).is_ok());
/// assert!(dl_nd::check_size::<f32>(&[usize::MAX, 2]).unwrap_err().is_shape());
/// ```
///
/// # Errors
/// A shape error when the tensor does not fit.
pub fn check_size<A>(shape: &[usize]) -> Result<()> {
    /// Sizes in bytes below this are not tried.
    const UNTRIED_BYTES: usize = 1 << 30;

    let bytes = |with_zeros: bool| {
        let mut lengths = shape.iter().copied().filter(|&length| with_zeros || length != 0);
        lengths.try_fold(size_of::<A>(), usize::checked_mul)
    };
    let (addresses, needed) = (bytes(false), bytes(true));
    let fits = |bytes: usize| bytes < UNTRIED_BYTES || Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    if addresses.is_some_and(|bytes| bytes <= isize::MAX as usize) && needed.is_some_and(fits) {
        return Ok(());
    }
    Err(Error::shape(format!("a tensor of shape {shape:?} is too large for the memory")))
}

/// The shape of a tensor with one element.
pub(crate) fn unit_shape<D: Dimension>() -> D {
    let mut shape = D::zeros(D::NDIM.unwrap_or(0));
    shape.slice_mut().fill(1);
    shape
}

/// The common shape of two operands, by NumPy's broadcasting rule.
pub(crate) fn broadcast_shape<D: Rank>(a: &[usize], b: &[usize]) -> Result<D> {
    common_shape(a, b).map_err(|axis| {
        Error::shape(format!(
            "shapes {a:?} and {b:?} do not broadcast: axis -{axis} (counted from the end) has length {} in the left one and {} \
             in the right one",
            a[a.len() - axis],
            b[b.len() - axis],
        ))
    })
}

/// The common shape of two operands. The error is the axis with conflicting lengths, counted from
/// the end, where the last axis is 1.
pub(crate) fn common_shape<D: Rank>(a: &[usize], b: &[usize]) -> std::result::Result<D, usize> {
    let rank = a.len().max(b.len());
    let mut shape = D::zeros(rank);
    let along = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    for (axis, length) in shape.slice_mut().iter_mut().enumerate() {
        *length = match (along(a, axis), along(b, axis)) {
            (a, b) if a == b => a,
            (1, other) | (other, 1) => other,
            _ => return Err(rank - axis),
        };
    }
    Ok(shape)
}

/// Number of elements of the broadcast shape. A float, since the shapes may be invalid or overflow.
pub(crate) fn common_len(shapes: &[&[usize]]) -> f64 {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or_default();
    let along = |axis: usize| shapes.iter().filter_map(move |shape| Some(shape[shape.len().checked_sub(axis)?]));
    (1..=rank).map(|axis| along(axis).find(|&length| length != 1).unwrap_or(1) as f64).product()
}

/// The dimension with these lengths.
pub(crate) fn dim_of<D: Dimension>(lengths: &[usize]) -> D {
    let mut dim = D::zeros(lengths.len());
    dim.slice_mut().copy_from_slice(lengths);
    dim
}

/// The error for a tensor with another number of axes than the rank `D`.
pub(crate) fn wrong_rank<D: Rank>(shape: &[usize]) -> Error {
    Error::shape(format!("a tensor of shape {shape:?} does not have {} axes", D::NDIM.unwrap_or(0)))
}
