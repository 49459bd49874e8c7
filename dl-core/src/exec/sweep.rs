//! Vacating the entries whose nodes nobody can reach any more, so that a loop of a million bangs
//! runs in constant memory.

use crate::exec::books::{Books, SWEEP_AT_LEAST};
use crate::exec::entry::{Entry, NONE, State};
use crate::graph::node::Expression;
use crate::graph::node_ref::AnyLayer;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Books {
    /// A node is out of reach when the only handle to it is ours, no dynamic node turned out to be
    /// it, and nobody waits for it. What is below it gets a handle of ours before it goes, and is
    /// looked at in its turn.
    ///
    /// Called each time the number of entries has doubled, so it costs a constant per entry; never
    /// during a walk, whose nodes have no consumers yet.
    pub(super) fn sweep(&mut self) {
        let mut suspects: Vec<u32> = self.roots.iter().map(|&(_, index)| index).collect();
        while let Some(index) = suspects.pop() {
            let entry = &self.entries[index as usize];
            let Some(node) = entry.node.filter(|node| node.handles() == 1) else { continue };
            if self.in_use(index) {
                continue;
            }
            if matches!(node.expression, Expression::Dynamic(_)) && self.source(index) != NONE {
                let source = self.source(index);
                self.links(source).followers -= 1;
                suspects.push(source);
            }
            for which in 0..node.operands().len() {
                let operand = self.operand(index, which);
                if self.is_scheduled(operand) {
                    let links = self.links(operand);
                    links.consumers = links.consumers.saturating_sub(1);
                }
                self.root(operand);
                suspects.push(operand);
            }
            let handle = self.vacate(index);
            // a destructor of the user's may run here; if it panics there is nobody to tell
            let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
        }
        self.sweep_at = (2 * self.live_entries()).max(SWEEP_AT_LEAST);
    }

    fn in_use(&self, index: u32) -> bool {
        let entry = &self.entries[index as usize];
        let waited_for = |links: u32| {
            links != NONE && {
                let links = &self.links[links as usize];
                links.followers > 0 || links.waiting != NONE
            }
        };
        // a weight may be met again under another leaf
        let node = entry.held();
        node.as_variable().is_some()
            || node.is_update()
            || entry.state == State::Pending
            || waited_for(entry.links)
            || self.wakers.contains_key(&index)
    }

    /// Gives up a rooted entry. What comes back is the last handle to its node.
    fn vacate(&mut self, index: u32) -> AnyLayer {
        self.tell_gone(index);
        self.discard_value(index);
        let place = self.links(index).root as usize;
        let (handle, _) = self.roots.swap_remove(place);
        if let Some(&(_, moved)) = self.roots.get(place) {
            self.links(moved).root = place as u32;
        }
        if !self.side.is_empty() {
            self.side.remove(&handle.address());
        }
        self.backwards.remove(&index);
        if let Some(closed) = self.closed.get_mut(index as usize) {
            *closed = false;
        }
        let entry = &mut self.entries[index as usize];
        self.vacant_links.push(std::mem::replace(&mut entry.links, NONE));
        *entry = Entry::VACANT;
        self.vacant.push(index);
        self.in_order = false;
        handle
    }
}
