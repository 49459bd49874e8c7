//! Serialization of tensors.

#[cfg(feature = "npy")]
pub(crate) mod npy;
mod stored;
