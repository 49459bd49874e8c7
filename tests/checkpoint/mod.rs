//! Checkpoint boundaries reduce memory and change neither values nor gradients.

mod bits;
mod counts;
mod failures;
mod higher;
mod nets;
mod size;
mod targets;
