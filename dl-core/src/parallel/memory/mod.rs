//! Memory pools.

pub mod large;
pub(crate) mod size_classes;

pub use size_classes::{AtHand, Small};
