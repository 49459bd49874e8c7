//! Storage of a weight or a buffer: its value, and its replicas.
//!
//! One reference count that many threads write would be contended. A weight therefore has a
//! *replica* (leaf) for each thread: a node with its own count, which stands for the weight in the
//! expressions that this thread builds. The variable owns all replicas and frees them.
//!
//! Invariant: the variable must live as long as any replica is in use. The scheme is that of Linux'
//! `percpu_ref`. While the initial handle, which [`Weight::new`](crate::Weight::new) creates and
//! which cannot be cloned, is alive, the variable is alive and the replicas are not counted. When
//! the initial handle is dropped, all replicas are switched to strict mode: they report when they
//! come into use or become idle, and `live` counts those in use. The report that takes `live` to
//! zero frees the variable.
//!
//! Locks: `commit` serialises the writers of a weight. A training step must take the `commit` locks
//! of its weights in the order of their ids, so that concurrent steps cannot deadlock. `open` is
//! held while a replica is added.

use crate::error::Result;
use crate::error::call_context::Origin;
use crate::graph::node::{DataVTable, Node, NodeOp};
use crate::graph::node_ref::{NodeRef, discard_leaf};
use crate::graph::refcount::RefCount;
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};
use crate::graph::weight::AnyWeight;
use dl_parallel::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Guarded, Mutex, MutexGuard, Ordering, TryLockError,
    array_of, globals,
};
use dl_parallel::thread_number::thread_number;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError};

/// The fields that a pass and a commit read come first, in one cache line.
#[repr(C, align(64))]
pub(crate) struct Variable {
    value: Cells,
    frozen: AtomicBool,
    /// Whether there is more than one replica.
    several: AtomicBool,
    /// Held during a commit, together with the locks of all other weights of the step, in the order
    /// of their ids.
    commit: Mutex<()>,
    /// The lock order of commits.
    id: u64,
    /// None for a buffer.
    weight: Option<&'static dyn AnyWeight>,
    place: &'static Location<'static>,
    vtable: &'static DataVTable,
    /// A liveness token, for optimizer state that refers to this weight by a `Weak`.
    alive: OnceLock<Arc<()>>,
    leaves: [AtomicPtr<Node>; LEAVES],
    /// Whether replicas may be added: until the initial handle is dropped.
    open: Mutex<bool>,
    /// The number of strict replicas in use, plus one for the initial handle.
    live: AtomicU32,
    /// Cache affinity: the thread that last took an operation on this weight from the queue of a
    /// training step, or `NOBODY`.
    met_by: AtomicUsize,
    guarded: Guarded,
}

/// The number of replicas, and of threads without contention.
const LEAVES: usize = if cfg!(loom) { 2 } else { 16 };

const NOBODY: usize = usize::MAX;

/// Numbers are read without a lock; other data are boxed behind one.
enum Cells {
    F32(AtomicU32),
    F64(AtomicU64),
    Any(Box<Mutex<Value>>),
}

/// A pointer from a replica to its variable. It does not keep the variable alive.
#[derive(Clone, Copy)]
pub(crate) struct VariableRef(NonNull<Variable>);

// SAFETY: a variable is `Send` and `Sync` (checked below).
unsafe impl Send for VariableRef {}
// SAFETY: as for `Send`.
unsafe impl Sync for VariableRef {}

const _: fn() = || {
    fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Variable>();
};

impl std::ops::Deref for VariableRef {
    type Target = Variable;

    #[inline]
    fn deref(&self) -> &Variable {
        // SAFETY: only replicas contain this pointer, and access to a replica needs a handle to it.
        // A replica with a handle keeps its variable alive.
        let variable = unsafe { self.0.as_ref() };
        variable.guarded.used();
        variable
    }
}

impl Variable {
    /// Creates a variable. Returns the initial handle, to its first replica. The variable lives
    /// until [`first_handle_goes`](Variable::first_handle_goes) was called and all handles are
    /// dropped.
    pub(crate) fn create(
        value: Value,
        weight: Option<&'static dyn AnyWeight>,
        vtable: &'static DataVTable,
        place: &'static Location<'static>,
    ) -> NodeRef {
        globals! {
            static NEXT: AtomicU64 = AtomicU64::new(1);
        }
        let value = match value.0 {
            Repr::F32(number) => Cells::F32(AtomicU32::new(number.to_bits())),
            Repr::F64(number) => Cells::F64(AtomicU64::new(number.to_bits())),
            any => Cells::Any(Box::new(Mutex::new(Value(any)))),
        };
        let variable = Box::new(Variable {
            id: NEXT.fetch_add(1, Ordering::Relaxed), // Relaxed: ids only have to be unique
            place,
            vtable,
            weight,
            frozen: AtomicBool::new(weight.is_none()),
            value,
            commit: Mutex::new(()),
            alive: OnceLock::new(),
            leaves: array_of![AtomicPtr::new(std::ptr::null_mut()); LEAVES],
            several: AtomicBool::new(false),
            open: Mutex::new(true),
            live: AtomicU32::new(1),
            met_by: AtomicUsize::new(NOBODY),
            guarded: Guarded::new(),
        });
        // Freed by `leaf_fell_idle`, when `live` reaches zero.
        VariableRef(NonNull::from(Box::leak(variable))).new_leaf(replica_of_this_thread())
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.place
    }

    #[inline]
    pub(crate) fn weight(&self) -> &'static dyn AnyWeight {
        self.weight.expect("a buffer is frozen, so no step trains it")
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.weight.is_some() { "weight" } else { "buffer" }
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    pub(crate) fn frozen(&self) -> bool {
        // Relaxed: the flag guards no other data.
        self.frozen.load(Ordering::Relaxed)
    }

    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
    }

    /// Records that this thread computes with the weight and has it in its cache.
    pub(crate) fn meet(&self) {
        let here = replica_of_this_thread();
        // Relaxed, here and in `affinity_distance`: a scheduling hint that guards no data.
        if self.met_by.load(Ordering::Relaxed) != here {
            self.met_by.store(here, Ordering::Relaxed);
        }
    }

    /// The affinity distance: 0 if this thread was the last one to [record](Variable::meet) its
    /// affinity or none was recorded, else a number for the thread that was. Threads beyond
    /// `LEAVES` share numbers.
    pub(crate) fn affinity_distance(&self) -> usize {
        match self.met_by.load(Ordering::Relaxed) {
            NOBODY => 0,
            thread => (thread + LEAVES - replica_of_this_thread()) % LEAVES,
        }
    }

    /// The value, if it is a number.
    #[inline(always)]
    pub(crate) fn number(&self) -> Option<Scalar> {
        match &self.value {
            Cells::F32(bits) => Some(Scalar::F32(f32::from_bits(bits.load(Ordering::Acquire)))),
            Cells::F64(bits) => Some(Scalar::F64(f64::from_bits(bits.load(Ordering::Acquire)))),
            Cells::Any(_) => None,
        }
    }

    /// Whether a graph may contain several replicas of it.
    pub(crate) fn has_several_leaves(&self) -> bool {
        // Acquire: synchronizes with the store in `another_leaf`, before the replica is published.
        self.several.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn read(&self) -> Value {
        match &self.value {
            Cells::Any(value) => Self::read_any(value),
            Cells::F32(_) | Cells::F64(_) => self.number().expect("these are numbers").into(),
        }
    }

    /// Not inlined: numbers are read faster this way.
    #[inline(never)]
    fn read_any(value: &Mutex<Value>) -> Value {
        value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that a delta belongs to the value.
    pub(crate) fn check_delta(&self, delta: &Value) -> Result<()> {
        (self.vtable.check_delta)(&self.read(), delta)
    }

    /// Calls `look` with the value, under the lock of the value; `look` must be built-in code.
    /// Unlike [`read`](Variable::read) it does not write the reference count of the data, which may
    /// be in the cache of another core.
    #[inline]
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Value) -> R) -> R {
        match &self.value {
            Cells::Any(value) => look(&value.lock().unwrap_or_else(PoisonError::into_inner)),
            Cells::F32(_) | Cells::F64(_) => look(&self.read()),
        }
    }

    /// Exchanges the value for the given one. The caller drops the old value after it has released
    /// the lock, as its destructor may be user code. The caller must hold the `commit` lock.
    #[inline]
    pub(crate) fn exchange(&self, value: &mut Value) {
        match (&self.value, &mut value.0) {
            // Relaxed load: only the owner of the `commit` lock writes, and the lock orders
            // writers. Release store: synchronizes with the Acquire load in `number`.
            (Cells::F32(bits), Repr::F32(number)) => {
                let old = bits.load(Ordering::Relaxed);
                bits.store(std::mem::replace(number, f32::from_bits(old)).to_bits(), Ordering::Release);
            }
            (Cells::F64(bits), Repr::F64(number)) => {
                let old = bits.load(Ordering::Relaxed);
                bits.store(std::mem::replace(number, f64::from_bits(old)).to_bits(), Ordering::Release);
            }
            (Cells::Any(own), Repr::Any(_)) => Self::change_any(own, |own| std::mem::swap(own, value)),
            _ => unreachable!("a weight holds the type that it was created with"),
        }
    }

    /// Changes the value in place. The caller must hold the `commit` lock.
    #[inline]
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        match &self.value {
            Cells::Any(value) => Self::change_any(value, change),
            Cells::F32(_) | Cells::F64(_) => {
                let mut value = self.read();
                change(&mut value);
                self.exchange(&mut value);
            }
        }
    }

    /// Not inlined: numbers are changed faster this way.
    #[inline(never)]
    fn change_any(value: &Mutex<Value>, change: impl FnOnce(&mut Value)) {
        change(&mut value.lock().unwrap_or_else(PoisonError::into_inner));
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the `commit` lock, if it is free.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        match self.commit.try_lock() {
            Ok(commit) => Some(commit),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The liveness token: alive as long as this variable.
    pub(crate) fn alive(&self) -> &Arc<()> {
        self.alive.get_or_init(Arc::default)
    }
}

impl VariableRef {
    /// A handle to the replica of this thread. The caller must hold a handle to some replica.
    #[inline]
    pub(crate) fn leaf(self) -> NodeRef {
        // Acquire, for every load of a replica: synchronizes with the store in `new_leaf`, after
        // which the node is initialized.
        match NonNull::new(self.leaves[replica_of_this_thread()].load(Ordering::Acquire)) {
            Some(leaf) => self.handle_to(leaf),
            None => self.another_leaf(),
        }
    }

    #[inline]
    fn handle_to(self, leaf: NonNull<Node>) -> NodeRef {
        // SAFETY: the replica belongs to this variable, which is alive because the caller holds a
        // handle.
        let (handle, came_into_use) = unsafe { NodeRef::of_leaf(leaf) };
        if came_into_use {
            // Relaxed: the replica of the caller's handle is counted, so `live` cannot reach zero
            // here.
            self.live.fetch_add(1, Ordering::Relaxed);
        }
        handle
    }

    #[cold]
    fn another_leaf(self) -> NodeRef {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = replica_of_this_thread();
        let mut leaves = self.leaves.iter().map(|leaf| NonNull::new(leaf.load(Ordering::Acquire)));
        match leaves.nth(slot).flatten() {
            Some(leaf) => self.handle_to(leaf),
            None if *open => {
                self.several.store(true, Ordering::Release);
                self.new_leaf(slot)
            }
            // No replicas are added any more, so one of another thread is used.
            None => {
                let leaf = self.leaves.iter().find_map(|leaf| NonNull::new(leaf.load(Ordering::Acquire)));
                self.handle_to(leaf.expect("a variable is created with a replica"))
            }
        }
    }

    fn new_leaf(self, slot: usize) -> NodeRef {
        let leaf = NodeRef::first(|| {
            Node::new(RefCount::leaf(), Origin::NONE, self.place, self.vtable, NodeOp::Weight(self, slot as u8))
        });
        self.leaves[slot].store(leaf.as_ptr().as_ptr(), Ordering::Release);
        leaf
    }

    /// Switches the replicas to strict mode. Must be called once, by the owner of the initial
    /// handle, before it releases that handle.
    pub(crate) fn first_handle_goes(self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = false;
        drop(open);
        for leaf in &self.leaves {
            if let Some(leaf) = NonNull::new(leaf.load(Ordering::Acquire)) {
                // The replica must be counted before it can report that it became idle. Relaxed:
                // the Release half of `make_strict` publishes the increment.
                self.live.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the replica belongs to this variable, which is alive because the caller
                // holds a handle.
                let node = unsafe { leaf.as_ref() };
                node.guarded.used();
                if !node.count.make_strict() {
                    // SAFETY: the replica was counted above. The variable stays alive, because
                    // `live` still counts the initial handle.
                    unsafe { self.leaf_fell_idle() };
                }
            }
        }
        // SAFETY: releases the count of the initial handle; the variable is not accessed
        // afterwards.
        unsafe { self.leaf_fell_idle() };
    }

    /// Reports that a replica is idle. If no replica is in use then, the variable is freed.
    ///
    /// # Safety
    /// The replica must have been counted in `live`, and the caller must not access the variable
    /// afterwards.
    pub(super) unsafe fn leaf_fell_idle(self) {
        // Release: uses of the variable through this replica happen before it is freed. Acquire:
        // synchronizes with the decrements of all other replicas.
        if self.live.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        for leaf in &self.leaves {
            if let Some(leaf) = NonNull::new(leaf.load(Ordering::Acquire)) {
                // SAFETY: no replica has a handle, and a new handle can only be obtained through
                // another one.
                unsafe { discard_leaf(leaf) };
            }
        }
        self.guarded.gone();
        // SAFETY: `create` leaked the box, and no replica is left that points to it. A model
        // checker inspects freed memory, so there the allocation is leaked.
        unsafe {
            if cfg!(any(shuttle, loom)) {
                self.0.drop_in_place();
            } else {
                drop(Box::from_raw(self.0.as_ptr()));
            }
        }
    }
}

/// The variable of a replica.
///
/// # Safety
/// `leaf` must be a replica of a variable that is alive.
pub(super) unsafe fn variable_of(leaf: NonNull<Node>) -> VariableRef {
    // SAFETY: guaranteed by the caller.
    let leaf = unsafe { leaf.as_ref() };
    leaf.guarded.used();
    match &leaf.op {
        NodeOp::Weight(variable, _) => *variable,
        _ => unreachable!("only replicas report"),
    }
}

impl Node {
    /// Whether this is the replica of a weight that this thread uses.
    #[inline]
    pub(crate) fn is_leaf_of_this_thread(&self) -> bool {
        matches!(&self.op, NodeOp::Weight(_, leaf) if usize::from(*leaf) == replica_of_this_thread())
    }
}

/// The index of this thread's replica, below [`LEAVES`].
#[inline]
fn replica_of_this_thread() -> usize {
    thread_number() % LEAVES
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use dl_parallel::thread_number::set_thread_number;
    use std::mem::offset_of;

    #[test]
    fn affinity_distance_counts_from_last_recorded_thread() {
        let weight = crate::Weight::new(1.0_f32);
        let leaf = crate::Differentiable::layer(&weight).into_any();
        let variable = leaf.as_variable().expect("a weight");
        assert_eq!(variable.affinity_distance(), 0, "none is recorded");
        set_thread_number(3);
        variable.meet();
        assert_eq!(variable.affinity_distance(), 0);
        set_thread_number(2);
        assert_eq!(variable.affinity_distance(), 1);
        set_thread_number(4);
        assert_eq!(variable.affinity_distance(), LEAVES - 1);
    }

    #[test]
    fn fields_read_by_passes_share_one_cache_line() {
        assert!(offset_of!(Variable, vtable) <= align_of::<Variable>());
    }
}
