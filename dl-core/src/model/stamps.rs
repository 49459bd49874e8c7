//! Passes that stamp one node: at most one pass owns the stamp at a time, until it ends.

use super::{explore, together};
use crate::graph::owner_stamp::{OwnerStamp, PassSeat};
use dl_parallel::sync::{AtomicU32, AtomicU64};
use std::sync::Arc;

#[derive(Default)]
struct Node {
    pass: AtomicU64,
    slot: AtomicU32,
    held: NodePtr,
}

impl Node {
    fn stamp(&self) -> OwnerStamp<'_> {
        OwnerStamp { pass: &self.pass, slot: &self.slot }
    }

    /// One pass, from its begin to its end.
    fn pass(&self, slot: u32) -> bool {
        self.pass_in(&mut PassSeat::default(), slot)
    }

    /// As `pass`, in a seat that an earlier pass may have used.
    fn pass_in(&self, seat: &mut PassSeat, slot: u32) -> bool {
        seat.begin();
        let won = self.stamp().claim(seat, slot);
        if won {
            self.held.hold(|| assert_eq!(self.stamp().slot(seat), Some(slot)));
        } else {
            assert_eq!(self.stamp().slot(seat), None);
        }
        seat.end();
        won
    }
}

/// Detects two passes that own the stamp at once, or one after the other without a happens-before
/// edge.
#[derive(Default)]
struct NodePtr {
    #[cfg(loom)]
    cell: dl_parallel::sync::checker::cell::UnsafeCell<()>,
    #[cfg(shuttle)]
    by: std::sync::atomic::AtomicUsize,
}

// SAFETY: the cell is empty; `loom` only checks the order of the accesses.
#[cfg(loom)]
#[allow(unsafe_code, reason = "an empty cell, instrumented by loom")]
unsafe impl Sync for NodePtr {}

impl NodePtr {
    #[cfg(loom)]
    fn hold(&self, meanwhile: impl FnOnce()) {
        let _alone = self.cell.get_mut();
        meanwhile();
    }

    #[cfg(shuttle)]
    fn hold(&self, meanwhile: impl FnOnce()) {
        use std::sync::atomic::Ordering::Relaxed;
        assert_eq!(self.by.fetch_add(1, Relaxed), 0, "two passes own the stamp");
        meanwhile();
        self.by.fetch_sub(1, Relaxed);
    }
}

#[test]
fn next_pass_in_same_seat_with_concurrent_pass_owns_stamp_exclusively() {
    explore(|| {
        let node = Arc::new(Node::default());
        let other = node.clone();
        together([
            Box::new(move || {
                let mut seat = PassSeat::default();
                node.pass_in(&mut seat, 1);
                node.pass_in(&mut seat, 2);
            }) as super::Part,
            Box::new(move || {
                other.pass(3);
            }),
        ]);
    });
}

#[test]
fn concurrent_passes_stamp_node_exclusively() {
    explore(|| {
        let node = Arc::new(Node::default());
        let other = node.clone();
        together([
            Box::new(move || {
                node.pass(1);
            }) as super::Part,
            Box::new(move || {
                other.pass(2);
            }),
        ]);
    });
}

#[test]
fn stamp_expires_when_its_pass_ends() {
    explore(|| {
        let node = Arc::new(Node::default());
        let ended = Arc::new(dl_parallel::sync::AtomicBool::new(false));
        let (theirs, traced) = (node.clone(), ended.clone());
        together([
            Box::new(move || {
                theirs.pass(1);
                traced.store(true, dl_parallel::sync::Ordering::Release);
            }) as super::Part,
            Box::new(move || {
                let lapsed = ended.load(dl_parallel::sync::Ordering::Acquire);
                assert!(node.pass(2) || !lapsed, "no pass owns the stamp any more");
            }),
        ]);
    });
}

#[test]
fn reused_seat_with_concurrent_pass_owns_stamp_exclusively() {
    explore(|| {
        let node = Arc::new(Node::default());
        let other = node.clone();
        together([
            Box::new(move || {
                node.pass(1);
                node.pass(2);
            }) as super::Part,
            Box::new(move || {
                other.pass(3);
            }),
        ]);
    });
}
