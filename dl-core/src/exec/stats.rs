//! Statistics of a pass. They are always on: a few additions under the state lock, which is held
//! anyway.

/// Statistics of a pass: see [`Do::counted`](crate::Do::counted).
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

/// The statistics of a running pass.
#[derive(Default)]
pub(super) struct Stats {
    so_far: Counters,
    /// The size of all live values, in bytes.
    bytes: usize,
    /// The number of nodes without a slot: it was freed, or there was none.
    without_slot: usize,
    /// The number of nodes that were not evaluated on insertion, and the number of constants among
    /// them.
    others: usize,
    constants: usize,
}

impl Stats {
    pub(super) fn reset(&mut self) {
        *self = Stats::default();
    }

    /// Counts an evaluation of an operation that is not scalar arithmetic, or that had to wait.
    #[inline(always)]
    pub(super) fn evaluated(&mut self) {
        self.so_far.evaluations += 1;
    }

    /// The number of evaluations.
    pub(super) fn evaluations(&self) -> usize {
        self.so_far.evaluations
    }

    #[inline(always)]
    pub(super) fn inserted_other(&mut self) {
        self.others += 1;
    }

    #[inline(always)]
    pub(super) fn inserted_constant(&mut self) {
        self.others += 1;
        self.constants += 1;
    }

    /// Counts a node without a slot: its slot was reused, or it never had one.
    pub(super) fn without_slot(&mut self) {
        self.without_slot += 1;
    }

    pub(super) fn holds(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.so_far.bytes_peak = self.so_far.bytes_peak.max(self.bytes);
    }

    pub(super) fn releases(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The counters of a pass with this many slots.
    pub(super) fn counters(&self, slots: usize) -> Counters {
        let all = slots + self.without_slot;
        Counters {
            nodes: all - self.constants,
            evaluations: all - self.others + self.so_far.evaluations,
            ..self.so_far
        }
    }
}
