//! Stored numbers, and files that are replaced as a whole.

#[doc(hidden)]
pub mod atomic_file;
pub(crate) mod numbers;
