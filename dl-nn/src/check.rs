//! Checks of layer sizes.

use dl_core::{Error, Result};
use dl_nd::check_size;

/// # Errors
/// If a size is 0.
pub(crate) fn check_positive(layer: &str, sizes: &[(&str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some((what, _)) => Err(Error::invalid(format!("{layer}: the number of {what} is 0; it must be at least 1"))),
        None => Ok(()),
    }
}

/// # Errors
/// If a weight of this shape is too large to allocate.
pub(crate) fn check_allocation<A>(layer: &str, shape: &[usize]) -> Result<()> {
    check_size::<A>(shape).map_err(|error| Error::shape(format!("{layer}: {error}")))
}

/// `number · size`, saturating: [`check_allocation`] rejects the result if it is too large.
pub(crate) fn times(number: usize, size: usize) -> usize {
    number.saturating_mul(size)
}
