//! Serializable arrays of numbers, their bytes, and atomic replacement of files.

#[doc(hidden)]
pub mod atomic_file;
pub(crate) mod numbers;
pub(crate) mod row;
pub(crate) mod wire;
