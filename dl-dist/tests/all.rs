//! All tests, as one program.

mod experts;
mod failures;
mod recursion;
mod same_bits;
mod support;
