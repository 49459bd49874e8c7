//! Three networks whose shape depends on their values, and an optimizer that remembers all that it
//! was told to write.

mod benchmark;
mod digits;
mod random;
mod witness;

pub(crate) use benchmark::Benchmark;
pub(crate) use digits::Digits;
pub(crate) use random::Random;
pub(crate) use witness::Witness;

use super::shake::Shake;
use dl::Do;

/// A network with its data.
pub(crate) trait Net: Send + Sync + 'static {
    type Loss: Into<f64> + Send + 'static;

    /// How long it is trained.
    const STEPS: usize;

    /// With its initial weights, the same each time.
    fn new() -> Self;

    /// A step of its training, which ends with the loss.
    fn step(&self, step: usize, shake: &Shake, optimizer: &Witness) -> Do<Self::Loss>;

    /// What else must be the same in the end.
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
}
