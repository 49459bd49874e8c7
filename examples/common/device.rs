//! The device of an example with the option `--device`.

use dl::nd::device::Device;
use std::sync::Arc;

/// The device to compute on if one is asked for: the first one of the machine.
///
/// # Errors
/// When there is none, or the example was built without the feature `gpu`.
pub(crate) fn open(asked: bool) -> dl::Result<Option<Arc<dyn Device>>> {
    if !asked {
        return Ok(None);
    }
    #[cfg(feature = "gpu")]
    return dl::gpu::open().map(Some);
    #[cfg(not(feature = "gpu"))]
    Err(dl::Error::invalid("`--device` needs the feature `gpu`: `cargo run --release --features gpu --example …`"))
}
