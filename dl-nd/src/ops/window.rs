//! Settings and checks shared by convolution and pooling.

use crate::kernels::SPATIAL;
use crate::tensor::check_size;
use dl_core::{Error, Result};

/// A setting for each of `N` spatial axes. Converts from an array, or from one number for all axes.
///
/// ```
/// use dl_nd::{Conv, PerAxis};
/// assert_eq!(PerAxis::<2>::from(3), PerAxis::from([3, 3]));
/// assert_eq!(Conv::<2>::new().stride(3), Conv::new().stride([3, 3]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerAxis<const N: usize>(pub(crate) [usize; N]);

impl<const N: usize> From<usize> for PerAxis<N> {
    fn from(everywhere: usize) -> Self {
        PerAxis([everywhere; N])
    }
}

impl<const N: usize> From<[usize; N]> for PerAxis<N> {
    fn from(settings: [usize; N]) -> Self {
        PerAxis(settings)
    }
}

/// Fails unless `shape` is `[batch, channels, …]` with `spatial` further axes.
pub(crate) fn check_batch(what: &str, shape: &[usize], spatial: usize) -> Result<()> {
    const AXES: [&str; SPATIAL] = ["length", "height, width", "depth, height, width"];
    if shape.len() == 2 + spatial {
        return Ok(());
    }
    let axes = AXES[spatial - 1];
    Err(Error::shape(format!("{what} of shape {shape:?} instead of [batch, channels, {axes}]")))
}

/// The number of elements of a result. Fails if a tensor of this shape cannot be allocated.
pub(crate) fn size<A>(shape: &[usize]) -> Result<usize> {
    check_size::<A>(shape)?;
    Ok(shape.iter().product())
}

/// Fails for a padding that keeps the lengths if a stride is not 1.
pub(crate) fn check_padding(padding: Option<&[usize]>, stride: &[usize]) -> Result<()> {
    match stride.iter().find(|&&stride| stride != 1) {
        Some(stride) if padding.is_none() => {
            Err(Error::invalid(format!("a padding that keeps the lengths needs a stride of 1 instead of {stride}")))
        }
        _ => Ok(()),
    }
}
