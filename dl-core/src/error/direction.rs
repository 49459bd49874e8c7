//! Forward or backward.

/// Forward or backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// The forward pass, which computes values.
    Forward,
    /// The backward pass, which computes deltas.
    Backward,
}
