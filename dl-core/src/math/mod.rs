//! Scalar mathematics: the pointwise table, its algebras, elementary functions.

pub(crate) mod algebra;
pub(crate) mod dual;
pub(crate) mod elementary;
pub(crate) mod number;
pub(crate) mod pointwise;
pub mod simd;
