//! Call chains of layers in errors and records, and the branches that bodies take.

mod branches;
mod chains;
mod errors;
mod support;
