//! Every operation of tensors against outside witnesses: values, gradients and second derivatives
//! from PyTorch, and differences of values at random points.
//!
//! Both walk over one table, `registry`: an operation that stands there is checked both ways.
//! Before a new operation does, its cases come into `tests/reference` (see the script there).
//!
//! The random points are the same in every run. `PROPTEST_CASES=1000` looks at more of them.

mod case;
mod controls;
mod differences;
mod documentation;
mod draw;
mod forward;
mod reference;
mod registry;
