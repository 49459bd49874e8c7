//! The eleven promises, a file each, with tests that fail when the promise is broken.

mod atomic;
mod deadlock;
mod derivatives;
mod deterministic;
mod errors;
mod free;
mod lazy;
mod once;
mod parallel;
mod plain;
mod stack;
mod support;
