//! All tests, as one program.

mod failures;
mod same_bits;
mod support;
