//! How many handles there are to a node.
//!
//! An ordinary node goes with its last handle. The leaves of a weight do not: a weight has one leaf
//! for each thread that uses it, so that threads do not fight over one counter, and it lives as
//! long as any of them is in use. While the *first* handle of the weight is alive, that is known
//! without counting: leaves come into use and fall idle without telling anybody. When the first
//! handle goes, every leaf is made [`strict`](Count::make_strict): from then on it reports when it
//! falls idle or comes into use, and the weight counts its leaves in use (see `variable.rs`).
//!
//! Nobody touches a node or a weight after the count has told that somebody else may drop it: what
//! there is to know is in the value that the decrement returns.

use crate::parallel::sync::{AtomicU32, Ordering, fence};

/// The leaf of a weight whose first handle is alive.
const FREE: u32 = 1 << 30;
/// The leaf of a weight whose first handle is gone.
const STRICT: u32 = 1 << 31;
const HANDLES: u32 = FREE - 1;
/// Far from the flags, so that many threads may pass it at once before one of them notices.
const TOO_MANY: u32 = 1 << 29;

pub(crate) struct Count(AtomicU32);

/// What is left after a handle was given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Other handles, or an idle leaf that nobody has to hear of.
    Something,
    /// No handle: the node is to be dropped.
    Nothing,
    /// A strict leaf that has fallen idle: the weight is to be told.
    Idle,
}

impl Count {
    /// The count of a new node, for its one handle.
    pub(crate) fn one() -> Self {
        Count(AtomicU32::new(1))
    }

    /// The count of a new leaf, for its one handle.
    pub(crate) fn leaf() -> Self {
        Count(AtomicU32::new(FREE | 1))
    }

    pub(crate) fn handles(&self) -> usize {
        (self.0.load(Ordering::Acquire) & HANDLES) as usize
    }

    /// Whether whoever asks has the only handle to an ordinary node.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    /// One handle more. Says whether a strict leaf came into use with it: then the weight is to be
    /// told.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.take_all(1)
    }

    /// The same for so many.
    #[inline]
    pub(crate) fn take_all(&self, handles: u32) -> bool {
        let before = self.0.fetch_add(handles, Ordering::Relaxed);
        if before & HANDLES > TOO_MANY {
            std::process::abort(); // handles were forgotten by the hundred million: counting on would be unsound
        }
        before == STRICT
    }

    /// One handle less.
    #[inline]
    pub(crate) fn give_back(&self) -> Left {
        self.give_back_all(1)
    }

    /// So many handles less, all of which the caller has.
    #[inline]
    pub(crate) fn give_back_all(&self, handles: u32) -> Left {
        // nobody else can clone them: no need to write
        if self.0.load(Ordering::Acquire) == handles {
            return Left::Nothing;
        }
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

    /// From now on this leaf reports. Says whether it is in use.
    pub(crate) fn make_strict(&self) -> bool {
        self.0.fetch_xor(FREE | STRICT, Ordering::AcqRel) & HANDLES > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_node_goes_with_its_last_handle() {
        let count = Count::one();
        assert!(!count.take());
        assert_eq!((count.handles(), count.is_one()), (2, false));
        assert_eq!(count.give_back(), Left::Something);
        assert_eq!(count.give_back(), Left::Nothing);
    }

    #[test]
    fn handles_are_given_back_together() {
        let count = Count::one();
        (0..2).for_each(|_| assert!(!count.take()));
        assert!(!count.take_all(2));
        assert_eq!(count.give_back_all(2), Left::Something);
        assert_eq!(count.handles(), 3);
        assert_eq!(count.give_back_all(3), Left::Nothing);
        let leaf = Count::leaf();
        assert!(!leaf.take());
        assert_eq!(leaf.give_back_all(2), Left::Something);
        assert!(!leaf.make_strict());
        assert!(leaf.take());
        assert!(!leaf.take());
        assert_eq!(leaf.give_back_all(2), Left::Idle);
    }

    #[test]
    fn a_leaf_reports_once_it_is_strict() {
        let count = Count::leaf();
        assert_eq!(count.give_back(), Left::Something);
        assert!(!count.take());
        assert!(count.make_strict());
        assert_eq!(count.give_back(), Left::Idle);
        assert!(count.take());
        assert_eq!(count.give_back(), Left::Idle);
    }
}
