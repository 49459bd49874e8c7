//! The reference count of a node.
//!
//! An ordinary node is dropped with its last handle. A *replica* of a weight is not: a weight has
//! one replica for each thread that uses it, so that threads do not contend for one count, and the
//! weight must live as long as any replica is in use. This is the scheme of Linux' `percpu_ref`:
//!
//! - While the *initial handle* of the weight is alive, the weight is alive. Its replicas are in
//!   *free* mode, where their counts pass from and to zero without a report.
//! - When the initial handle is dropped, each replica is switched to [`strict`](Count::make_strict)
//!   mode. From then on it reports when its count reaches zero or leaves zero, and the weight
//!   counts its live replicas (see `variable.rs`).
//!
//! Invariant: a node or a weight must not be accessed after the decrement that allows another
//! thread to drop it. All further decisions must depend on the returned value alone.

use dl_parallel::sync::{AtomicU32, Ordering, fence};

/// Flag of a replica in free mode: the initial handle of its weight is alive.
const FREE: u32 = 1 << 30;
/// Flag of a replica in strict mode: the initial handle of its weight has been dropped.
const STRICT: u32 = 1 << 31;
const HANDLES: u32 = FREE - 1;
/// The process aborts above this count. It is far below the flags, because other threads may
/// increment the count before the first of them has aborted.
const TOO_MANY: u32 = 1 << 29;

pub(crate) struct RefCount(AtomicU32);

/// The state of a node after handles were released.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// There are other handles, or it is a replica that does not report.
    Something,
    /// No handle is left: the caller must drop the node.
    Nothing,
    /// A strict replica has no handle left: the caller must report this to its weight.
    Idle,
}

impl RefCount {
    /// The count of a new node with one handle.
    pub(crate) fn one() -> Self {
        RefCount(AtomicU32::new(1))
    }

    /// The count of a new replica with one handle, in free mode.
    pub(crate) fn leaf() -> Self {
        RefCount(AtomicU32::new(FREE | 1))
    }

    pub(crate) fn handles(&self) -> usize {
        // Acquire: synchronizes with the Release decrements of handles released before.
        (self.0.load(Ordering::Acquire) & HANDLES) as usize
    }

    /// Whether there is exactly one handle, and the node is no replica.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        // Acquire: as in `handles`, so the caller has exclusive access.
        self.0.load(Ordering::Acquire) == 1
    }

    /// Acquires a handle. Returns whether a strict replica came into use, which the caller must
    /// report to its weight.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.take_all(1)
    }

    /// Acquires this many handles.
    #[inline]
    pub(crate) fn take_all(&self, handles: u32) -> bool {
        // Relaxed: a handle is acquired through another one, which was published already.
        let before = self.0.fetch_add(handles, Ordering::Relaxed);
        if before & HANDLES > TOO_MANY {
            std::process::abort(); // overflow by forgotten handles would be unsound
        }
        before == STRICT
    }

    /// Releases a handle.
    #[inline]
    pub(crate) fn give_back(&self) -> Left {
        self.give_back_all(1)
    }

    /// Releases this many handles, all of which the caller must own.
    #[inline]
    pub(crate) fn give_back_all(&self, handles: u32) -> Left {
        // The caller owns all handles, so no other thread can clone one, and the decrement can be
        // skipped. Acquire: synchronizes with the Release decrements of handles released before.
        if self.0.load(Ordering::Acquire) == handles {
            return Left::Nothing;
        }
        // Release: uses through these handles happen before the drop of the node. The fences
        // synchronize with the Release decrements of all other handles.
        match self.0.fetch_sub(handles, Ordering::Release) {
            before if before == handles => {
                fence(Ordering::Acquire);
                Left::Nothing
            }
            before if before == STRICT | handles => {
                fence(Ordering::Acquire);
                Left::Idle
            }
            _ => Left::Something,
        }
    }

    /// Switches a replica to strict mode. Returns whether it is in use.
    pub(crate) fn make_strict(&self) -> bool {
        // Acquire: synchronizes with the Release decrements of handles released before the switch.
        // Release: a thread that finds the strict flag, and fences, also sees the increment of the
        // weight's count of live replicas that precedes the switch.
        self.0.fetch_xor(FREE | STRICT, Ordering::AcqRel) & HANDLES > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_release_of_ordinary_node_returns_nothing() {
        let count = RefCount::one();
        assert!(!count.take());
        assert_eq!((count.handles(), count.is_one()), (2, false));
        assert_eq!(count.give_back(), Left::Something);
        assert_eq!(count.give_back(), Left::Nothing);
    }

    #[test]
    fn handles_released_together_return_state_of_last() {
        let count = RefCount::one();
        (0..2).for_each(|_| assert!(!count.take()));
        assert!(!count.take_all(2));
        assert_eq!(count.give_back_all(2), Left::Something);
        assert_eq!(count.handles(), 3);
        assert_eq!(count.give_back_all(3), Left::Nothing);
        let leaf = RefCount::leaf();
        assert!(!leaf.take());
        assert_eq!(leaf.give_back_all(2), Left::Something);
        assert!(!leaf.make_strict());
        assert!(leaf.take());
        assert!(!leaf.take());
        assert_eq!(leaf.give_back_all(2), Left::Idle);
    }

    #[test]
    fn strict_replica_reports_use_and_idleness() {
        let count = RefCount::leaf();
        assert_eq!(count.give_back(), Left::Something);
        assert!(!count.take());
        assert!(count.make_strict());
        assert_eq!(count.give_back(), Left::Idle);
        assert!(count.take());
        assert_eq!(count.give_back(), Left::Idle);
    }
}
