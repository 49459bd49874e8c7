//! Handles to nodes: reference-counted, allocated from a thread-local free list, dropped
//! iteratively.
//!
//! A scalar operation takes a few nanoseconds, less than a general allocator. All nodes therefore
//! have one size, a cache line, and a thread reuses the memory of the nodes that it drops.

use crate::graph::node::{Node, NodeOp};
use crate::graph::refcount::Left;
use dl_parallel::memory;
use dl_parallel::memory::slab::{self, CELLS, Cell as Memory, CellCache, prefetch as prefetch_at};
use dl_parallel::sync::thread_local;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Once;

/// A type-erased layer: a reference-counted handle to its node (a node reference).
///
/// It is `pub` only because sealed methods of public traits mention it. It cannot be named outside
/// of the crate.
#[allow(unreachable_pub, reason = "mentioned by sealed methods of public traits")]
pub struct NodeRef(NonNull<Node>);

// SAFETY: a node is `Send` and `Sync` (checked below), and its reference count is atomic.
unsafe impl Send for NodeRef {}
// SAFETY: as for `Send`.
unsafe impl Sync for NodeRef {}

const _: fn() = || {
    fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Node>();
};

impl NodeRef {
    /// The first handle to a new node. The count of the node must be that of one handle.
    #[inline(always)]
    pub(super) fn first(make: impl FnOnce() -> Node) -> Self {
        let memory = take_memory();
        let mut node = memory;
        // SAFETY: the memory has the size and alignment of a node, and was taken from the free list
        // or a slab, so nothing else refers to it.
        let node = unsafe {
            memory.write(make());
            node.as_mut()
        };
        if node.origin.is_by_rule() {
            node.place_by_rule();
        }
        NodeRef(memory)
    }

    /// A new handle to a replica that a live weight owns. Returns whether the replica came into
    /// use.
    ///
    /// # Safety
    /// `leaf` must be a replica of a weight that is alive until this returns.
    pub(crate) unsafe fn of_leaf(leaf: NonNull<Node>) -> (Self, bool) {
        // SAFETY: the weight owns the replica, and the caller guarantees that the weight is alive.
        let node = unsafe { leaf.as_ref() };
        node.guarded.used();
        prefetch_at(leaf.as_ptr().wrapping_add(FAR));
        (NodeRef(leaf), node.count.take())
    }

    /// Handles to both nodes. If they are the same node, as in a square, the count is incremented
    /// once.
    #[inline]
    pub(crate) fn clone_both(&self, other: &NodeRef) -> (NodeRef, NodeRef) {
        if self.0 == other.0 {
            self.count.take_all(2);
        } else {
            self.count.take();
            other.count.take();
        }
        (NodeRef(self.0), NodeRef(other.0))
    }

    /// The address of the node, without a handle.
    pub(crate) fn as_ptr(&self) -> NonNull<Node> {
        self.0
    }

    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }
}

impl Clone for NodeRef {
    #[inline]
    fn clone(&self) -> Self {
        self.count.take();
        NodeRef(self.0)
    }
}

impl Drop for NodeRef {
    #[inline]
    fn drop(&mut self) {
        match self.count.give_back() {
            Left::Something => {}
            Left::Nothing => dismantle(self.0),
            // SAFETY: a strict replica with a count of zero is counted in `live` until
            // `leaf_fell_idle` is called, so its variable is alive.
            Left::Idle => unsafe { crate::graph::variable::variable_of(self.0).leaf_fell_idle() },
        }
    }
}

impl std::ops::Deref for NodeRef {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: a node is dropped with its last handle, and `self` is a handle.
        let node = unsafe { self.0.as_ref() };
        node.guarded.used();
        node
    }
}

/// An unowned pointer to a node. A pass stores these for all nodes below its roots, which the
/// handles of the roots keep alive.
#[derive(Clone, Copy)]
pub(crate) struct NodePtr(NonNull<Node>);

// SAFETY: as for `NodeRef`: a node is `Send` and `Sync`.
unsafe impl Send for NodePtr {}

impl NodePtr {
    /// # Safety
    /// The node must be alive whenever the result is used.
    #[inline]
    pub(crate) unsafe fn new(layer: &NodeRef) -> Self {
        NodePtr(layer.0)
    }

    /// Prefetches the node.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch(self.0);
    }

    /// Prefetches the nodes that were built some time after this one.
    #[inline(always)]
    pub(crate) fn prefetch_later(self) {
        prefetch_pair(self.0.as_ptr().wrapping_add(FAR));
    }

    /// A new handle to the node.
    pub(crate) fn handle(self) -> NodeRef {
        self.count.take();
        NodeRef(self.0)
    }

    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }
}

impl std::ops::Deref for NodePtr {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: the caller of `new` guaranteed that the node is alive.
        let node = unsafe { self.0.as_ref() };
        node.guarded.used();
        node
    }
}

/// Prefetch distance, in nodes. Replicas that are used one after another, and the nodes of a tree
/// that is traversed, are mostly adjacent in memory. An atomic increment of a count waits for its
/// cache line, and later instructions wait for it, so the line this far ahead is prefetched.
const FAR: usize = 16;

/// Prefetches a cache line. Traversal of a long chain is bound by cache misses.
#[inline(always)]
fn prefetch<T>(line: NonNull<T>) {
    prefetch_at(line.as_ptr());
}

/// Prefetches two adjacent lines: a binary tree has two nodes for each branch.
#[inline(always)]
fn prefetch_pair(line: *const Node) {
    prefetch_at(line);
    prefetch_at(line.wrapping_add(1));
}

/// Thread-local state: the free list of nodes, and the worklist of nodes to be dropped.
struct FreeList {
    cells: CellCache,
    dismantling: Cell<bool>,
    drop_list: DropList,
}

/// Drop worklist: nodes without handles that are still to be dropped.
type DropList = RefCell<Vec<NonNull<Node>>>;

/// Capacity of the free list of a worker after it has helped a pass: the rest of the slab that it
/// has begun. If it returned these cells, each job would begin another slab, and the thread that
/// drops the nodes would keep many slabs alive for a few cells each. The list may instead hold as
/// many cells of slabs that other threads began, each of which keeps its slab alive.
const KEPT_BY_HELPERS: usize = CELLS;

thread_local! {
    static FREE_LIST: FreeList = const {
        FreeList { cells: CellCache::new(), dismantling: Cell::new(false), drop_list: RefCell::new(Vec::new()) }
    };
}

impl Drop for FreeList {
    fn drop(&mut self) {
        // Nodes are left if a destructor has panicked.
        let drop_list = self.drop_list.take();
        if let Some((&first, rest)) = drop_list.split_first() {
            // SAFETY: `drop_iteratively` passes each node once, after its parts were moved out.
            drop_iteratively(first, &RefCell::new(rest.to_vec()), |node| unsafe { self.cells.give_back(node.cast()) });
        }
    }
}

/// Allocates the memory of a node.
#[inline(always)]
fn take_memory() -> NonNull<Node> {
    if cfg!(any(shuttle, loom)) {
        // A checker's node is larger than a cell, and is never freed.
        return NonNull::from(Box::leak(Box::<Node>::new_uninit())).cast();
    }
    const { assert!(cfg!(any(shuttle, loom)) || size_of::<Node>() == size_of::<Memory>()) };
    take_cell().cast()
}

/// Allocates a cell, for a node or for another object.
#[inline(always)]
pub(super) fn take_cell() -> NonNull<Memory> {
    FREE_LIST.try_with(|free_list| free_list.cells.take()).ok().flatten().unwrap_or_else(new_cell)
}

/// # Safety
/// The cell must have come from `take_cell`, and must not be used afterwards.
#[inline]
pub(super) unsafe fn give_back_cell(cell: NonNull<Memory>) {
    // SAFETY: guaranteed by the caller; `take_cell` takes every cell from a cache.
    if FREE_LIST.try_with(|free_list| unsafe { free_list.cells.keep(cell) }).is_err() {
        // SAFETY: as above.
        unsafe { slab::give_back(cell) };
    }
}

/// Called by a worker that has helped a pass. Shrinks its free list: the nodes that it dropped were
/// mostly allocated by other threads, and it allocates few itself.
pub(crate) fn help_is_over() {
    let _ = FREE_LIST.try_with(|free_list| free_list.cells.trim(KEPT_BY_HELPERS));
}

/// Takes a cell of a new slab, when the free list is empty.
#[cold]
fn new_cell() -> NonNull<Memory> {
    static POOL: Once = Once::new();
    POOL.call_once(|| {
        memory::on_release(|| {
            let _ = FREE_LIST.try_with(|free_list| free_list.cells.trim(0));
        });
    });
    // A thread whose local values have been destroyed returns the other cells at once.
    FREE_LIST.try_with(|free_list| free_list.cells.refill()).unwrap_or_else(|_| CellCache::new().refill())
}

/// Frees a replica of a weight that is being dropped.
///
/// # Safety
/// There must be no handle to the replica, and no way to obtain one.
pub(super) unsafe fn discard_leaf(leaf: NonNull<Node>) {
    // SAFETY: guaranteed by the caller. A replica owns nothing that has to be dropped.
    unsafe {
        leaf.as_ref().guarded.gone();
        slab::give_back(leaf.cast());
    }
}

/// Drops a node that has no handle left, and the operands that only it refers to. The graph may be
/// a chain of a million nodes, so this does not recurse: a node that is dropped while another one
/// is being dropped is pushed to the worklist of the thread, which the outermost call drains.
fn dismantle(node: NonNull<Node>) {
    let dismantled = FREE_LIST.try_with(|free_list| {
        if free_list.dismantling.replace(true) {
            free_list.drop_list.borrow_mut().push(node);
            return;
        }
        let _reset = Reset(free_list);
        // SAFETY: `drop_iteratively` passes each node once, after its parts were moved out.
        drop_iteratively(node, &free_list.drop_list, |node| unsafe { free_list.cells.keep(node.cast()) });
    });
    if dismantled.is_err() {
        dismantle_late(node);
    }
}

/// As [`dismantle`], after the thread-local state has been destroyed.
#[cold]
fn dismantle_late(node: NonNull<Node>) {
    thread_local! {
        /// The worklist of the outermost call. `Cell` has no destructor, so it is accessible to the
        /// end of the thread.
        static DROP_LIST: Cell<Option<NonNull<DropList>>> = const { Cell::new(None) };
    }
    match DROP_LIST.get() {
        // SAFETY: the pointer was set by a call further up this stack, which resets it before its
        // worklist is dropped.
        Some(drop_list) => unsafe { drop_list.as_ref() }.borrow_mut().push(node),
        None => {
            struct Reset;

            impl Drop for Reset {
                fn drop(&mut self) {
                    DROP_LIST.set(None);
                }
            }

            let drop_list = RefCell::default();
            DROP_LIST.set(Some(NonNull::from(&drop_list)));
            let _reset = Reset;
            // SAFETY: `drop_iteratively` passes each node once, after its parts were moved out.
            drop_iteratively(node, &drop_list, |node| unsafe { slab::give_back(node.cast()) });
        }
    }
}

fn drop_iteratively(first: NonNull<Node>, drop_list: &DropList, free: impl Fn(NonNull<Node>)) {
    let mut parting = Parting { node: first, handles: 0 };
    let mut next = Some(first);
    while let Some(node) = next.take().or_else(|| drop_list.borrow_mut().pop()).or_else(|| parting.end()) {
        // SAFETY: the node has no handle left, so it can be accessed exclusively. Each part is read
        // once, before the memory is freed, and is not dropped in place.
        let taken = |part: &NodeRef| unsafe { std::ptr::read(part) };
        // SAFETY: the node has no handle left, and its memory has not been freed.
        unsafe { node.as_ref() }.guarded.gone();
        // SAFETY: as above.
        match unsafe { &(*node.as_ptr()).op } {
            NodeOp::F32(_) | NodeOp::F64(_) | NodeOp::Seed(_) => {}
            NodeOp::Unary(_, [x]) | NodeOp::WithNumber(_, _, _, [x]) => next = parting.part(taken(x)),
            NodeOp::Binary(_, [a, b]) => {
                // The operand that was built last is adjacent to the node; the other one may not be
                // cached.
                prefetch(a.0);
                next = parting.part(taken(b));
                if let Some(a) = parting.part(taken(a)) {
                    match next {
                        Some(b) => {
                            // The nodes to be dropped next are the second branch of a tree, built
                            // just before its root.
                            prefetch_pair(b.as_ptr().wrapping_sub(FAR));
                            drop_list.borrow_mut().push(a);
                        }
                        None => next = Some(a),
                    }
                }
            }
            // May run user code, which may drop more nodes.
            other => {
                // SAFETY: the expression is read once, before the memory is freed, and is not
                // dropped in place.
                let parts = unsafe { std::ptr::read(other) };
                free(node);
                if let Some(last) = parting.end() {
                    drop_list.borrow_mut().push(last);
                }
                drop(parts);
                continue;
            }
        }
        free(node);
    }
}

/// A run of handles to one node that are released together. A chain `y · w · w · …` has as many
/// handles to its weight as steps, and each decrement is an atomic instruction. The handles are
/// operands of scalar arithmetic, so no user data are dropped with them.
struct Parting {
    /// The node, valid if `handles` is not 0.
    node: NonNull<Node>,
    handles: u32,
}

impl Parting {
    /// Adds a handle to the run, or starts a run for another node. Returns a node that has no
    /// handle left, if there is one: the node of this handle, or that of the previous run.
    #[inline(always)]
    fn part(&mut self, layer: NodeRef) -> Option<NonNull<Node>> {
        let node = layer.0;
        let is_one = layer.count.is_one();
        std::mem::forget(layer);
        if is_one {
            return Some(node);
        }
        let before = if self.node == node || self.handles == 0 { None } else { self.end() };
        (self.node, self.handles) = (node, self.handles + 1);
        before
    }

    /// Releases the run. Returns its node if the node has no handle left. Not inlined: there are
    /// several call sites, and most calls find an empty run.
    #[inline(never)]
    fn end(&mut self) -> Option<NonNull<Node>> {
        let handles = std::mem::take(&mut self.handles);
        if handles == 0 {
            return None;
        }
        // SAFETY: the handles of the run have not been released, so the node is alive.
        let node = unsafe { self.node.as_ref() };
        node.guarded.used();
        match node.count.give_back_all(handles) {
            Left::Something => None,
            Left::Nothing => Some(self.node),
            Left::Idle => {
                // SAFETY: a strict replica with a count of zero is counted in `live` until
                // `leaf_fell_idle` is called, so its variable is alive.
                unsafe { crate::graph::variable::variable_of(self.node).leaf_fell_idle() };
                None
            }
        }
    }
}

struct Reset<'a>(&'a FreeList);

impl Drop for Reset<'_> {
    fn drop(&mut self) {
        self.0.dismantling.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(any(shuttle, loom)))]
    use crate::Layer;

    #[test]
    fn node_size_is_one_cache_line() {
        assert_eq!((size_of::<Node>(), align_of::<Node>()), (64, 64));
    }

    #[cfg(not(any(shuttle, loom)))]
    #[test]
    fn square_counts_both_operand_handles() {
        use crate::{Differentiable, Pointwise, Weight};
        let (a, b) = (Layer::constant(2.0_f64) + 0.0, Layer::constant(3.0_f64) + 0.0);
        let handles = || (a.any().handles(), b.any().handles());
        let products = (&a * &a, &a * &b, f64::binary(crate::Binary::Max, &a, &a));
        assert_eq!(handles(), (6, 2));
        drop(products);
        assert_eq!(handles(), (1, 1));
        // A strict replica: the initial handle of its weight has been dropped.
        let w = Weight::new(3.0_f64);
        let x = w.layer();
        drop(w);
        let square = &x * &x;
        drop(x);
        assert_eq!(square.predict().wait().expect("it succeeds"), 9.0);
    }

    #[cfg(not(any(shuttle, loom)))]
    #[test]
    fn chain_with_repeated_operand_drops_with_short_worklist() {
        let x = || Layer::constant(1.0_f64) + 1.0;
        let chain = (0..10_000).map(|_| x()).fold(x(), |y, x| &y * &x + x);
        drop(chain);
        let room = FREE_LIST.with(|free_list| free_list.drop_list.borrow().capacity());
        assert!(room < 100, "the worklist had room for {room} nodes");
    }

    #[cfg(not(any(shuttle, loom)))]
    #[test]
    fn helper_allocates_from_one_slab() {
        let cells = || {
            let cell = take_cell();
            help_is_over();
            cell
        };
        let cells: Vec<_> = std::iter::repeat_with(cells).take(CELLS).collect();
        let slabs = cells.chunk_by(|&a, &b| slab::are_of_one_slab(a, b)).count();
        // SAFETY: the cells came from `take_cell` and are unused.
        cells.into_iter().for_each(|cell| unsafe { give_back_cell(cell) });
        assert_eq!(slabs, 1);
    }
}
