//! Handles to nodes: counted, from a free list of each thread, and dropped without recursion.
//!
//! A scalar operation takes some nanoseconds; a general allocator and a shared count cost more than
//! that. So nodes are all of one size, a cache line, and a thread that drops one keeps its memory
//! for the next.

use crate::graph::inline_box::Cell as Memory;
use crate::graph::node::{Expression, Node};
use crate::graph::node_slab as block;
use crate::graph::refcount::Left;
use crate::parallel::sync::thread_local;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// A layer whose data type is forgotten: a shared handle to its node.
///
/// It is `pub` only because sealed methods of public traits mention it; nobody outside the crate
/// can name it.
#[allow(unreachable_pub, reason = "mentioned by sealed methods of public traits")]
pub struct AnyLayer(NonNull<Node>);

// SAFETY: a node is `Send` and `Sync` (checked below), and its count is atomic.
unsafe impl Send for AnyLayer {}
// SAFETY: as above.
unsafe impl Sync for AnyLayer {}

const _: fn() = || {
    fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Node>();
};

impl AnyLayer {
    /// The first handle to a new node. Its count must be that of one handle.
    #[inline(always)]
    pub(super) fn first(make: impl FnOnce() -> Node) -> Self {
        let memory = YARD.try_with(Yard::take).ok().flatten().unwrap_or_else(new_memory);
        let mut node = memory;
        // SAFETY: the memory is that of a node, and ours
        let node = unsafe {
            memory.write(make());
            node.as_mut()
        };
        if node.origin.is_by_rule() {
            node.place_by_rule();
        }
        AnyLayer(memory)
    }

    /// One more handle to a leaf that a living weight owns. Says whether the leaf has come into
    /// use.
    ///
    /// # Safety
    /// `leaf` is a leaf of a weight that is alive, and stays so until this returns.
    pub(crate) unsafe fn of_leaf(leaf: NonNull<Node>) -> (Self, bool) {
        // SAFETY: the weight owns the leaf and is alive
        let node = unsafe { leaf.as_ref() };
        node.guarded.used();
        prefetch_at(leaf.as_ptr().wrapping_add(FAR));
        (AnyLayer(leaf), node.count.take())
    }

    /// Handles to both. If they are the same, as in a square, they are counted together.
    #[inline]
    pub(crate) fn clone_both(&self, other: &AnyLayer) -> (AnyLayer, AnyLayer) {
        if self.0 == other.0 {
            self.count.take_all(2);
        } else {
            self.count.take();
            other.count.take();
        }
        (AnyLayer(self.0), AnyLayer(other.0))
    }

    /// The node itself, without a handle of one's own.
    pub(crate) fn as_ptr(&self) -> NonNull<Node> {
        self.0
    }

    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }
}

impl Clone for AnyLayer {
    #[inline]
    fn clone(&self) -> Self {
        self.count.take();
        AnyLayer(self.0)
    }
}

impl Drop for AnyLayer {
    #[inline]
    fn drop(&mut self) {
        match self.count.give_back() {
            Left::Something => {}
            Left::Nothing => dismantle(self.0),
            // SAFETY: a strict leaf that has fallen idle is still counted by its weight, until it
            // is told
            Left::Idle => unsafe { crate::graph::variable::variable_of(self.0).leaf_fell_idle() },
        }
    }
}

impl std::ops::Deref for AnyLayer {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: a handle keeps its node alive
        let node = unsafe { self.0.as_ref() };
        node.guarded.used();
        node
    }
}

/// A node that somebody else keeps alive: what the books of a pass hold for everything below their
/// roots.
#[derive(Clone, Copy)]
pub(crate) struct Held(NonNull<Node>);

// SAFETY: as `AnyLayer`
unsafe impl Send for Held {}

impl Held {
    /// # Safety
    /// Whoever uses it must make sure that the node is alive then.
    #[inline]
    pub(crate) unsafe fn new(layer: &AnyLayer) -> Self {
        Held(layer.0)
    }

    /// The node will be looked at soon.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch(self.0);
    }

    /// What was built after this node will be looked at soon.
    #[inline(always)]
    pub(crate) fn prefetch_later(self) {
        prefetch_pair(self.0.as_ptr().wrapping_add(FAR));
    }

    /// A handle of one's own.
    pub(crate) fn handle(self) -> AnyLayer {
        self.count.take();
        AnyLayer(self.0)
    }

    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }
}

impl std::ops::Deref for Held {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: promised to `new`
        let node = unsafe { self.0.as_ref() };
        node.guarded.used();
        node
    }
}

/// Who uses one weight after the other mostly goes from leaf to leaf as they lie in memory, and who
/// walks through a tree from node to node. To count a handle waits for the line, and nothing goes
/// on meanwhile, so one is fetched that is so far ahead.
const FAR: usize = 16;

/// Has a cache line fetched. A walk over a long chain waits for little else.
#[inline(always)]
fn prefetch<T>(line: NonNull<T>) {
    prefetch_at(line.as_ptr());
}

/// The same for two lines, as there are two nodes of a binary tree for each branch.
#[inline(always)]
fn prefetch_pair(line: *const Node) {
    prefetch_at(line);
    prefetch_at(line.wrapping_add(1));
}

/// The same for any address.
#[inline(always)]
fn prefetch_at<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it touches nothing
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// What a thread keeps: memory of nodes, and nodes to be dismantled.
struct Yard {
    /// A list that is threaded through the free memory itself.
    free: Cell<Option<NonNull<Free>>>,
    length: Cell<usize>,
    /// A block, and how many of its cells have come back that it has not heard of: mostly the next
    /// one is of the same block.
    returned: Cell<(Option<NonNull<Node>>, usize)>,
    dismantling: Cell<bool>,
    doomed: Doomed,
}

/// Nodes that are to be dismantled.
type Doomed = RefCell<Vec<NonNull<Node>>>;

struct Free {
    next: Option<NonNull<Free>>,
}

/// A megabyte.
const KEPT: usize = if cfg!(any(shuttle, loom)) { 0 } else { 1 << 14 };
/// What a thread keeps that only helps: the rest of the block that it has begun. If it gave that
/// back, it would begin another one each time, and whoever drops its nodes would keep many blocks,
/// for a few cells of each. Of blocks that others have begun it keeps as many cells at most, and
/// with each of them that block.
const KEPT_BY_HELPERS: usize = block::CELLS;

thread_local! {
    static YARD: Yard = const {
        Yard {
            free: Cell::new(None),
            length: Cell::new(0),
            returned: Cell::new((None, 0)),
            dismantling: Cell::new(false),
            doomed: RefCell::new(Vec::new()),
        }
    };
}

impl Yard {
    #[inline]
    fn take(&self) -> Option<NonNull<Node>> {
        let free = self.free.get()?;
        // SAFETY: what is on the list is ours, and was initialised when it was put there
        let next = unsafe { free.as_ref() }.next;
        next.inspect(|&next| prefetch(next));
        self.free.set(next);
        self.length.set(self.length.get() - 1);
        Some(free.cast())
    }

    fn trim(&self, length: usize) {
        while self.length.get() > length {
            let Some(node) = self.take() else { break };
            // SAFETY: what is on the list came from `new_memory`
            unsafe { self.give_back(node) };
        }
        self.tell_block();
    }

    /// # Safety
    /// The memory came from `new_memory`, and nobody uses it any more.
    #[inline]
    unsafe fn keep(&self, node: NonNull<Node>) {
        if self.length.get() == KEPT {
            // SAFETY: passed on
            return unsafe { self.give_back(node) };
        }
        let free = node.cast::<Free>();
        // SAFETY: the memory of a node is large enough for a link, aligned, and ours
        unsafe { free.write(Free { next: self.free.get() }) };
        self.free.set(Some(free));
        self.length.set(self.length.get() + 1);
    }

    /// # Safety
    /// The memory came from `new_memory`, and nobody uses it any more.
    unsafe fn give_back(&self, node: NonNull<Node>) {
        if cfg!(any(shuttle, loom)) {
            return; // a model checker looks at what is gone
        }
        let block = block::of(node);
        match self.returned.get() {
            (Some(last), cells) if last == block => self.returned.set((Some(block), cells + 1)),
            _ => {
                self.tell_block();
                self.returned.set((Some(block), 1));
            }
        }
    }

    /// The block hears of the cells that have come back.
    fn tell_block(&self) {
        if let (Some(block), cells) = self.returned.take() {
            // SAFETY: they were given to `give_back`; until it has heard of them, the block is
            // there
            unsafe { block::give_back(block, cells) };
        }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // left over if a destructor has panicked
        let doomed = self.doomed.take();
        if let Some((&first, rest)) = doomed.split_first() {
            // SAFETY: `take_apart` gives back nodes that nobody uses any more
            take_apart(first, &RefCell::new(rest.to_vec()), |node| unsafe { self.give_back(node) });
        }
        self.trim(0);
    }
}

/// Memory of a node, for something else.
#[inline]
pub(super) fn take_cell() -> NonNull<Memory> {
    YARD.try_with(Yard::take).ok().flatten().unwrap_or_else(new_memory).cast()
}

/// # Safety
/// `take_cell` gave it, and nobody uses it any more.
#[inline]
pub(super) unsafe fn give_back_cell(cell: NonNull<Memory>) {
    let node = cell.cast::<Node>();
    // SAFETY: passed on
    if YARD.try_with(|yard| unsafe { yard.keep(node) }).is_err() {
        // SAFETY: passed on
        unsafe { give_back(node) };
    }
}

/// This thread has helped with a pass. The nodes that it has freed were made elsewhere, and it will
/// hardly need them.
pub(crate) fn help_is_over() {
    let _ = YARD.try_with(|yard| yard.trim(KEPT_BY_HELPERS));
}

/// Hands the memory that this thread keeps back, and all blocks that nobody uses then.
pub(crate) fn release() {
    let _ = YARD.try_with(|yard| yard.trim(0));
    block::release();
}

/// Memory of a node, where the list is empty; it gets more than that.
#[cold]
fn new_memory() -> NonNull<Node> {
    if cfg!(any(shuttle, loom)) {
        return NonNull::from(Box::leak(Box::<Node>::new_uninit())).cast(); // each by itself, as it never comes back
    }
    let [first, others @ ..] = block::take_cells();
    for cell in others.into_iter().rev() {
        // SAFETY: it is new, and nobody has it
        if YARD.try_with(|yard| unsafe { yard.keep(cell) }).is_err() {
            // SAFETY: as above; the thread is ending
            unsafe { give_back(cell) };
        }
    }
    first
}

/// # Safety
/// The memory came from `new_memory`, and nobody uses it any more.
unsafe fn give_back(node: NonNull<Node>) {
    if cfg!(any(shuttle, loom)) {
        return; // a model checker looks at what is gone
    }
    // SAFETY: passed on; `new_memory` takes it from a block
    unsafe { block::give_back(block::of(node), 1) };
}

/// Takes a leaf of a weight apart that is going.
///
/// # Safety
/// Nobody has a handle to it, and nobody can come by one.
pub(super) unsafe fn discard_leaf(leaf: NonNull<Node>) {
    // SAFETY: passed on; a leaf owns nothing that has to be dropped
    unsafe {
        leaf.as_ref().guarded.gone();
        give_back(leaf);
    }
}

/// Drops a node that has no handle left, and what goes with it: maybe a chain of a million nodes.
/// So a node that is dropped while another one is being dropped waits on a list, which the
/// outermost drop works off.
fn dismantle(node: NonNull<Node>) {
    let dismantled = YARD.try_with(|yard| {
        if yard.dismantling.replace(true) {
            yard.doomed.borrow_mut().push(node);
            return;
        }
        let _reset = Reset(yard);
        // SAFETY: passed on: `take_apart` gives back nodes that nobody uses any more
        take_apart(node, &yard.doomed, |node| unsafe { yard.keep(node) });
    });
    if dismantled.is_err() {
        dismantle_late(node);
    }
}

/// The same when the thread is ending and its yard is gone.
#[cold]
fn dismantle_late(node: NonNull<Node>) {
    thread_local! {
        /// The list of the outermost drop. It needs no destructor, so it is there to the end.
        static DOOMED: Cell<Option<NonNull<Doomed>>> = const { Cell::new(None) };
    }
    match DOOMED.get() {
        // SAFETY: whoever put it there, further up on this stack, takes it away before it goes
        Some(doomed) => unsafe { doomed.as_ref() }.borrow_mut().push(node),
        None => {
            struct Reset;

            impl Drop for Reset {
                fn drop(&mut self) {
                    DOOMED.set(None);
                }
            }

            let doomed = RefCell::default();
            DOOMED.set(Some(NonNull::from(&doomed)));
            let _reset = Reset;
            // SAFETY: `take_apart` gives back nodes that nobody uses any more
            take_apart(node, &doomed, |node| unsafe { give_back(node) });
        }
    }
}

fn take_apart(first: NonNull<Node>, doomed: &Doomed, free: impl Fn(NonNull<Node>)) {
    let mut parting = Parting { node: first, handles: 0 };
    let mut next = Some(first);
    while let Some(node) = next.take().or_else(|| doomed.borrow_mut().pop()).or_else(|| parting.end()) {
        // SAFETY: the node has no handle left, so its parts are ours; each is taken out once,
        // before the memory is given away
        let taken = |part: &AnyLayer| unsafe { std::ptr::read(part) };
        // SAFETY: as above
        unsafe { node.as_ref() }.guarded.gone();
        // SAFETY: as above
        match unsafe { &(*node.as_ptr()).expression } {
            Expression::F32(_) | Expression::F64(_) | Expression::Seed(_) => {}
            Expression::Unary(_, [x]) | Expression::WithNumber(_, _, _, [x]) => next = parting.part(taken(x)),
            Expression::Binary(_, [a, b]) => {
                // what was built last lies beside the node
                prefetch(a.0);
                next = parting.part(taken(b));
                if let Some(a) = parting.part(taken(a)) {
                    match next {
                        Some(b) => {
                            // what goes next is the second branch of a tree, which was built before
                            // its root
                            prefetch_pair(b.as_ptr().wrapping_sub(FAR));
                            doomed.borrow_mut().push(a);
                        }
                        None => next = Some(a),
                    }
                }
            }
            // may run code of the user's, and drop more nodes
            other => {
                // SAFETY: as above
                let parts = unsafe { std::ptr::read(other) };
                free(node);
                if let Some(last) = parting.end() {
                    doomed.borrow_mut().push(last);
                }
                drop(parts);
                continue;
            }
        }
        free(node);
    }
}

/// Handles in a row to one node, which are given back together: a chain `y · w · w · …` has as many
/// to its weight as it has steps, and each count is an instruction that all others wait for. They
/// are operands of scalar arithmetic, so nothing of the user's goes with them.
struct Parting {
    /// This one, if there are any.
    node: NonNull<Node>,
    handles: u32,
}

impl Parting {
    /// One handle more, to this node or another one. Says which node has no handle left, if one has
    /// not: that one, or the one before.
    #[inline(always)]
    fn part(&mut self, layer: AnyLayer) -> Option<NonNull<Node>> {
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

    /// Gives them back. Says whether the node has no handle left then. Not inlined: it is needed in
    /// several places, and less often than not.
    #[inline(never)]
    fn end(&mut self) -> Option<NonNull<Node>> {
        let handles = std::mem::take(&mut self.handles);
        if handles == 0 {
            return None;
        }
        // SAFETY: these handles keep it alive
        let node = unsafe { self.node.as_ref() };
        node.guarded.used();
        match node.count.give_back_all(handles) {
            Left::Something => None,
            Left::Nothing => Some(self.node),
            Left::Idle => {
                // SAFETY: a strict leaf that has fallen idle is still counted by its weight, until
                // it is told
                unsafe { crate::graph::variable::variable_of(self.node).leaf_fell_idle() };
                None
            }
        }
    }
}

struct Reset<'a>(&'a Yard);

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
    fn a_node_is_one_cache_line() {
        assert_eq!((size_of::<Node>(), align_of::<Node>()), (64, 64));
    }

    #[cfg(not(any(shuttle, loom)))]
    #[test]
    fn both_handles_of_a_square_are_counted() {
        use crate::{Differentiable, Pointwise, Weight};
        let (a, b) = (Layer::constant(2.0_f64) + 0.0, Layer::constant(3.0_f64) + 0.0);
        let handles = || (a.any().handles(), b.any().handles());
        let products = (&a * &a, &a * &b, f64::binary(crate::Binary::Max, &a, &a));
        assert_eq!(handles(), (6, 2));
        drop(products);
        assert_eq!(handles(), (1, 1));
        // a leaf that reports that it falls idle, as the first handle to its weight has gone
        let w = Weight::new(3.0_f64);
        let x = w.layer();
        drop(w);
        let square = &x * &x;
        drop(x);
        assert_eq!(square.predict().wait().expect("it succeeds"), 9.0);
    }

    #[cfg(not(any(shuttle, loom)))]
    #[test]
    fn what_a_chain_has_twice_goes_before_what_is_below() {
        let x = || Layer::constant(1.0_f64) + 1.0;
        let chain = (0..10_000).map(|_| x()).fold(x(), |y, x| &y * &x + x);
        drop(chain);
        let room = YARD.with(|yard| yard.doomed.borrow().capacity());
        assert!(room < 100, "a list of {room} that were to go later");
    }

    #[cfg(not(any(shuttle, loom)))]
    #[test]
    fn a_helper_uses_up_its_block() {
        let cells = || {
            let cell = take_cell();
            help_is_over();
            cell
        };
        let cells: Vec<_> = std::iter::repeat_with(cells).take(block::CELLS).collect();
        let blocks = cells.chunk_by(|&a, &b| block::of(a.cast()) == block::of(b.cast())).count();
        // SAFETY: `take_cell` gave them
        cells.into_iter().for_each(|cell| unsafe { give_back_cell(cell) });
        assert_eq!(blocks, 1);
    }
}
