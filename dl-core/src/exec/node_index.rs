//! Looks up the slot of a node, and the slot of a weight under any of its replicas.
//!
//! A node carries a stamp with its pass and its slot (see `graph/owner_stamp.rs`). A node that
//! another live pass has stamped is in the fallback map.

use crate::exec::vec_pool;
use crate::graph::node::Node;
use crate::graph::owner_stamp::PassSeat;
use rustc_hash::FxHashMap;

/// The number of weights up to which a linear search is faster than a map.
const FEW_WEIGHTS: usize = 16;

#[derive(Default)]
pub(super) struct NodeIndex {
    seat: PassSeat,
    /// Nodes that another live pass has stamped, by address.
    fallback: FxHashMap<usize, u32>,
    /// The slots of weights, by the addresses of their variables.
    weights: Vec<(usize, u32)>,
    /// The same as a map, from the first weight on that may have been inserted under another
    /// replica.
    weights_by_address: FxHashMap<usize, u32>,
    /// The replica of the first weight that was inserted, and whether others occurred: most graphs
    /// are built by one thread.
    replica: Option<u8>,
    replicas_differ: bool,
}

impl NodeIndex {
    /// Called when a pass begins.
    pub(super) fn begin(&mut self) {
        self.seat.begin();
    }

    /// Called when the pass ends: all stamps expire.
    pub(super) fn reset(&mut self) {
        self.seat.end();
        vec_pool::clear(&mut self.weights);
        (self.replica, self.replicas_differ) = (None, false);
        if self.fallback.capacity() + self.weights_by_address.capacity() > 0 {
            self.clear_maps();
        }
    }

    #[cold]
    fn clear_maps(&mut self) {
        for map in [&mut self.fallback, &mut self.weights_by_address] {
            map.clear();
            map.shrink_to(vec_pool::SMALL);
        }
    }

    /// The slot of a node. A node without a stamp is not found.
    #[inline(always)]
    pub(super) fn find(&self, node: &Node) -> Option<u32> {
        match self.find_by_stamp(node) {
            None => self.find_in_fallback(node),
            found => found,
        }
    }

    #[inline(always)]
    pub(super) fn find_by_stamp(&self, node: &Node) -> Option<u32> {
        node.stamp().slot(&self.seat)
    }

    #[inline]
    pub(super) fn find_in_fallback(&self, node: &Node) -> Option<u32> {
        if self.fallback.is_empty() { None } else { self.fallback.get(&std::ptr::from_ref(node).addr()).copied() }
    }

    /// Stamps a node, or adds it to the fallback map.
    #[inline(always)]
    pub(super) fn stamp(&mut self, node: &Node, slot: u32) {
        if !self.stamp_only(node, slot) {
            self.fallback.insert(std::ptr::from_ref(node).addr(), slot);
        }
    }

    /// Stamps a node unless another live pass holds the stamp. Returns whether it did.
    #[inline(always)]
    pub(super) fn stamp_only(&self, node: &Node, slot: u32) -> bool {
        node.stamp().claim(&self.seat, slot)
    }

    /// Called when the slot of this node becomes free.
    pub(super) fn remove(&mut self, address: usize) {
        if !self.fallback.is_empty() {
            self.fallback.remove(&address);
        }
    }

    /// The number of inserted weights.
    pub(super) fn weights(&self) -> usize {
        self.weights.len()
    }

    #[inline(always)]
    pub(super) fn add_weight(&mut self, address: usize, slot: u32) {
        vec_pool::push(&mut self.weights, (address, slot));
    }

    /// Called before a weight is inserted under this replica. Returns whether it may already be
    /// inserted under another replica. If all replicas so far have one number, no weight has been
    /// inserted under two.
    #[inline(always)]
    pub(super) fn may_have_other_replica(&mut self, replica: u8) -> bool {
        self.replicas_differ |= *self.replica.get_or_insert(replica) != replica;
        self.replicas_differ
    }

    /// The slot of a weight under any replica.
    pub(super) fn find_weight(&mut self, address: usize, has_several_replicas: bool) -> Option<u32> {
        if !has_several_replicas {
            return None;
        }
        if self.weights.len() <= FEW_WEIGHTS {
            return self.weights.iter().find(|(known, _)| *known == address).map(|&(_, slot)| slot);
        }
        let known = self.weights_by_address.len();
        self.weights_by_address.extend(self.weights[known..].iter().copied());
        self.weights_by_address.get(&address).copied()
    }
}
