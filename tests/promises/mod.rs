//! The eleven promises, one file each. Each test fails if its promise is broken.

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
