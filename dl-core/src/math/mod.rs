//! Scalar mathematics: the table of pointwise operations, the algebras in which it is evaluated,
//! the elementary functions, the instruction sets.

pub(crate) mod algebra;
pub(crate) mod dual;
pub(crate) mod elementary;
pub(crate) mod number;
pub(crate) mod pointwise;
pub mod simd;
