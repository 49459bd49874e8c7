//! Networks with graphs that depend on values, and an optimizer that records all updates.

mod benchmark;
mod digits;
mod random;
mod witness;

pub(crate) use benchmark::Benchmark;
pub(crate) use digits::Digits;
pub(crate) use random::Random;
pub(crate) use witness::Witness;

use super::jitter::Jitter;
use dl::Do;

/// A network with its data.
pub(crate) trait Net: Send + Sync + 'static {
    type Loss: Into<f64> + Send + 'static;

    /// The number of training steps.
    const STEPS: usize;

    /// Creates the network, with fixed initial weights.
    fn new() -> Self;

    /// A training step, which returns the loss.
    fn step(&self, step: usize, jitter: &Jitter, optimizer: &Witness) -> Do<Self::Loss>;

    /// Further results that must be deterministic.
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
}
