//! Tensors in files.

#[cfg(feature = "npy")]
pub(crate) mod npy;
mod stored;
