//! The slots of nodes, looked up by node, and those of weights, by weight.
//!
//! A node carries a stamp, which says in which slot of which pass it is (see `owner_stamp.rs`). A
//! node that another live pass has stamped is in the fallback map.

use crate::exec::owner_stamp::Seat;
use crate::exec::vec_pool;
use crate::graph::node::Node;
use rustc_hash::FxHashMap;

/// Among so many weights a linear search is faster than a map.
const FEW_WEIGHTS: usize = 16;

#[derive(Default)]
pub(super) struct NodeIndex {
    seat: Seat,
    /// Nodes that another live pass has stamped, by address.
    fallback: FxHashMap<usize, u32>,
    /// The slots of weights, by the addresses of their variables.
    weights: Vec<(usize, u32)>,
    /// The same as a map, once a weight was inserted that may be there under another replica.
    weights_by_address: FxHashMap<usize, u32>,
    /// Which replica of its weight the first one was that was inserted, and whether there were
    /// others: most graphs are built by one thread.
    replica: Option<u8>,
    replicas_differ: bool,
}

impl NodeIndex {
    /// A pass begins.
    pub(super) fn begin(&mut self) {
        self.seat.begin();
    }

    /// The pass is over: all stamps lapse.
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
        vec_pool::empty(&mut self.fallback);
        vec_pool::empty(&mut self.weights_by_address);
    }

    /// Which seat the next pass has already, if one was found.
    pub(super) fn seat(&self) -> Option<u32> {
        self.seat.place()
    }

    /// The next pass looks for a seat of its own.
    pub(super) fn give_seat_back(&mut self) {
        self.seat = Seat::default();
    }

    /// The slot of a node. That of a node without a stamp is not found.
    #[inline(always)]
    pub(super) fn find(&self, node: &Node) -> Option<u32> {
        match self.find_by_stamp(node) {
            None => self.find_in_fallback(node),
            found => found,
        }
    }

    #[inline(always)]
    pub(super) fn find_by_stamp(&self, node: &Node) -> Option<u32> {
        node.claim().entry(&self.seat)
    }

    #[inline]
    pub(super) fn find_in_fallback(&self, node: &Node) -> Option<u32> {
        if self.fallback.is_empty() { None } else { self.fallback.get(&std::ptr::from_ref(node).addr()).copied() }
    }

    /// Stamps a node, or puts it into the fallback map.
    #[inline(always)]
    pub(super) fn stamp(&mut self, node: &Node, slot: u32) {
        if !self.stamp_only(node, slot) {
            self.fallback.insert(std::ptr::from_ref(node).addr(), slot);
        }
    }

    /// Stamps a node, unless another live pass has. Says whether it did.
    #[inline(always)]
    pub(super) fn stamp_only(&self, node: &Node, slot: u32) -> bool {
        node.claim().claim(&self.seat, slot)
    }

    /// The slot of this node is free.
    pub(super) fn remove(&mut self, address: usize) {
        if !self.fallback.is_empty() {
            self.fallback.remove(&address);
        }
    }

    /// How many weights were inserted.
    pub(super) fn weights(&self) -> usize {
        self.weights.len()
    }

    #[inline(always)]
    pub(super) fn add_weight(&mut self, address: usize, slot: u32) {
        vec_pool::push(&mut self.weights, (address, slot));
    }

    /// A weight is about to be inserted under this replica. Says whether it may be there already,
    /// under another one: a pass that has seen replicas of one number only has not seen two of one
    /// weight.
    #[inline(always)]
    pub(super) fn may_have_other_replica(&mut self, replica: u8) -> bool {
        self.replicas_differ |= *self.replica.get_or_insert(replica) != replica;
        self.replicas_differ
    }

    /// The slot of a weight, maybe under another replica.
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
