//! Settings and checks shared by convolution and pooling.

use crate::kernels::{SPATIAL, Window};
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

/// The number of pooling windows along an axis. Their padding must be at most half of the kernel.
pub(crate) fn outputs(window: Window, shape: &[usize], axis: usize, ceil: bool) -> Result<usize> {
    let (padding, kernel) = (window.padding, window.kernel);
    let outputs = window.outputs(shape, axis, ceil)?;
    if padding > kernel / 2 {
        return Err(Error::invalid(format!(
            "a padding of {padding} along axis {axis} is more than half of the kernel, {kernel}"
        )));
    }
    Ok(outputs)
}
