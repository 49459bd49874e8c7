//! Serializable arrays of numbers, and atomic replacement of files.

#[doc(hidden)]
pub mod atomic_file;
pub(crate) mod numbers;
