//! Marks in a net: the same gradients, less memory, and nothing else is different.

mod bits;
mod counts;
mod failures;
mod higher;
mod nets;
mod size;
mod targets;
