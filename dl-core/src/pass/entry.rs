//! What the books of a pass say of one node.

use crate::error::Error;
use crate::node::Held;
use crate::value::Value;

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

pub(crate) struct Entry {
    /// Absent when the entry is vacant.
    pub(crate) node: Option<Held>,
    pub(crate) status: Status,
    /// The entries of the first two operands. For a dynamic node, the first is that of the layer that it turned out to be.
    pub(crate) operands: [u32; 2],
    /// Where its [`Links`] are, if it has any.
    pub(crate) links: u32,
    /// Whether a gradient could flow through it to some weight.
    pub(crate) trained: bool,
    /// Whether the pass has a handle to the node. All other nodes are below one that it has.
    pub(crate) rooted: bool,
    /// Whether it could not be evaluated when it was entered. Only then do its consumers count.
    pub(crate) scheduled: bool,
}

impl Entry {
    pub(super) const VACANT: Entry = Entry {
        node: None,
        status: Status::Freed,
        operands: [NONE; 2],
        links: NONE,
        trained: false,
        rooted: false,
        scheduled: false,
    };

    #[inline(always)]
    pub(crate) fn held(&self) -> Held {
        self.node.expect("the entry is not vacant")
    }
}

pub(crate) enum Status {
    Pending,
    Done(Value),
    /// It was done; nobody needs the value any more.
    Freed,
    Failed(Error),
}

/// What an entry needs that waits, that is waited for, or whose value may be let go.
pub(super) struct Links {
    /// Operands that are not done.
    pub(super) pending: u32,
    /// The first of those who wait for this one.
    pub(super) waiting: u32,
    /// Operand edges that lead here, and those among them whose consumer is not done. Only those of consumers that were
    /// scheduled are counted, which is enough: the others are scalars, whose values need not be let go.
    pub(super) consumers: u32,
    pub(super) unfinished: u32,
    /// How many dynamic nodes turned out to be this one.
    pub(super) followers: u32,
    /// Where the handle of the pass is, if the entry is rooted.
    pub(super) root: u32,
    /// The size of the value.
    pub(super) bytes: usize,
}

impl Links {
    pub(super) const NEW: Links =
        Links { pending: 0, waiting: NONE, consumers: 0, unfinished: 0, followers: 0, root: NONE, bytes: 0 };
}

/// Somebody who waits, in a list that is threaded through one table.
pub(super) struct Waiting {
    pub(super) consumer: u32,
    pub(super) next: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry>() <= 48);
    }
}
