//! What a pass counts of itself, always: a few additions under a lock that is held anyway.

/// What a pass did: see [`Do::counted`](crate::Do::counted).
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// let w = Weight::new(3.0_f64);
/// let (value, counters) = (&w * &w + 1.0).predict().counted().wait()?;
/// assert_eq!((value, counters.nodes, counters.evaluations), (10.0, 3, 2));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Layers that it met: weights, operations, decisions; those of the backward, too. Constants
    /// are not counted.
    pub nodes: usize,
    /// Operations that it evaluated. The arithmetic of a scalar's backward, which needs no layers,
    /// is not among them.
    pub evaluations: usize,
    /// Buffers of more than 16 KB that it wrote into a second time instead of asking the allocator
    /// for new ones. Smaller ones, which a thread keeps for itself, are not counted.
    pub reused_buffers: usize,
    /// The most that its values occupied at any time, in bytes. Plain numbers, which are kept in
    /// its tables, do not count.
    pub bytes_peak: usize,
    /// The most threads that worked for it at the same time, those that helped with a kernel
    /// included.
    pub parallel_width: usize,
}

/// The counting: what has been counted so far, and what goes up and down.
#[derive(Default)]
pub(super) struct Count {
    pub(super) so_far: Counters,
    bytes: usize,
}

impl Count {
    pub(super) fn holds(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.so_far.bytes_peak = self.so_far.bytes_peak.max(self.bytes);
    }

    pub(super) fn lets_go(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
