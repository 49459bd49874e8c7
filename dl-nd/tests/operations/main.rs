//! Tests every tensor operation in two ways: values, gradients and second derivatives are compared
//! with PyTorch, and derivatives with central differences at random points.
//!
//! `registry` lists the operations; each is tested in both ways. To add an operation, add its cases
//! to `tests/reference` (see the script there) and an entry to the registry.
//!
//! The random points are the same in every run. `PROPTEST_CASES=1000` tests more of them.

mod case;
mod controls;
mod device;
mod differences;
mod documentation;
mod draw;
mod forward;
mod reference;
mod registry;
