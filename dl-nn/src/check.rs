//! Sizes that make sense.

use dl_core::{Error, Result};
use dl_nd::check_size;

/// An error, if a size is 0.
pub(crate) fn positive(layer: &str, sizes: &[(&str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some((what, _)) => Err(Error::invalid(format!("{layer}: the number of {what} is 0; it must be at least 1"))),
        None => Ok(()),
    }
}

/// An error, if there is no memory for a weight of this shape.
pub(crate) fn room<A>(layer: &str, shape: &[usize]) -> Result<()> {
    check_size::<A>(shape).map_err(|error| Error::shape(format!("{layer}: {error}")))
}

/// A multiple of a size; what is too large for the memory is found out later.
pub(crate) fn times(number: usize, size: usize) -> usize {
    number.saturating_mul(size)
}
