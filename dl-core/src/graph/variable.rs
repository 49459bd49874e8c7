//! What a weight consists of, whatever its type: its value, and its leaves.
//!
//! A weight that many threads use at once must not have one count that all of them write. So it has
//! a *leaf* for each thread: a node that stands for the weight in the expressions that this thread
//! builds, with a count of its own. All leaves belong to the variable and go with it.
//!
//! The variable lives as long as any leaf is in use. As long as the first handle is alive, which
//! [`Weight::new`](crate::Weight::new) makes and nobody can clone, it surely lives, and nothing is
//! counted. When the first handle goes, all leaves are made to report when they fall idle or come
//! into use, and `live` counts those in use; the last one that reports drops the variable.

use crate::api::weight::AnyWeight;
use crate::error::call_context::Origin;
use crate::graph::node::{DataKind, Expression, Node};
use crate::graph::node_ref::{AnyLayer, discard_leaf};
use crate::graph::refcount::Count;
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};
use crate::parallel::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Guarded, Mutex, MutexGuard, Ordering, TryLockError,
    array_of, globals, thread_local,
};
use std::cell::Cell;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError};

/// What a pass and a commit look at comes first, in one cache line.
#[repr(C, align(64))]
pub(crate) struct Variable {
    value: Cells,
    frozen: AtomicBool,
    /// Whether there is more than one leaf.
    several: AtomicBool,
    /// Held during a commit, together with those of all weights of the step, taken in the order of
    /// their numbers.
    commit: Mutex<()>,
    /// Orders the locks of a commit.
    id: u64,
    pub(crate) weight: &'static dyn AnyWeight,
    place: &'static Location<'static>,
    kind_of_data: &'static DataKind,
    /// For those who keep something for this weight and want to know whether it is alive.
    alive: OnceLock<Arc<()>>,
    leaves: [AtomicPtr<Node>; LEAVES],
    /// Whether leaves may be added: until the first handle goes.
    open: Mutex<bool>,
    /// Leaves in use, once they report; and one for the first handle.
    live: AtomicU32,
    /// The last thread that has taken an operation with it from the queue of a training step, or
    /// nobody.
    met_by: AtomicUsize,
    guarded: Guarded,
}

/// As many as there may be threads without a queue at a leaf.
const LEAVES: usize = if cfg!(loom) { 2 } else { 16 };

const NOBODY: usize = usize::MAX;

/// Numbers are read without a lock. Anything else lies elsewhere, as what is large does anyway.
enum Cells {
    F32(AtomicU32),
    F64(AtomicU64),
    Any(Box<Mutex<Value>>),
}

/// A variable, as its leaves know it. They do not keep it alive; it keeps them.
#[derive(Clone, Copy)]
pub(crate) struct VariableRef(NonNull<Variable>);

// SAFETY: a variable is `Send` and `Sync` (checked below)
unsafe impl Send for VariableRef {}
// SAFETY: as above
unsafe impl Sync for VariableRef {}

const _: fn() = || {
    fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Variable>();
};

impl std::ops::Deref for VariableRef {
    type Target = Variable;

    #[inline]
    fn deref(&self) -> &Variable {
        // SAFETY: only leaves hold this, and whoever looks at a leaf has a handle to it: so the
        // variable is alive
        let variable = unsafe { self.0.as_ref() };
        variable.guarded.used();
        variable
    }
}

impl Variable {
    /// A new variable, and the first handle to its first leaf. It lives until
    /// [`first_handle_goes`](Variable::first_handle_goes) and all handles are gone.
    pub(crate) fn create(
        value: Value,
        weight: &'static dyn AnyWeight,
        kind_of_data: &'static DataKind,
        place: &'static Location<'static>,
    ) -> AnyLayer {
        globals! {
            static NEXT: AtomicU64 = AtomicU64::new(1);
        }
        let value = match value.0 {
            Repr::F32(number) => Cells::F32(AtomicU32::new(number.to_bits())),
            Repr::F64(number) => Cells::F64(AtomicU64::new(number.to_bits())),
            any => Cells::Any(Box::new(Mutex::new(Value(any)))),
        };
        let variable = Box::new(Variable {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            place,
            kind_of_data,
            weight,
            frozen: AtomicBool::new(false),
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
        // dropped by the last leaf that reports
        VariableRef(NonNull::from(Box::leak(variable))).new_leaf(thread_number())
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.place
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    pub(crate) fn frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
    }

    /// This thread computes with it, and has it in its caches now.
    pub(crate) fn meet(&self) {
        let here = thread_number();
        if self.met_by.load(Ordering::Relaxed) != here {
            self.met_by.store(here, Ordering::Relaxed);
        }
    }

    /// 0 if this thread was the last one to [meet](Variable::meet) it, or nobody has, and else a
    /// number for the thread that was; with very many threads, several have one number.
    pub(crate) fn met_elsewhere(&self) -> usize {
        match self.met_by.load(Ordering::Relaxed) {
            NOBODY => 0,
            thread => (thread + LEAVES - thread_number()) % LEAVES,
        }
    }

    /// Whether it is a plain number.
    #[inline]
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.value, Cells::F32(_) | Cells::F64(_))
    }

    /// The number, if it is one.
    #[inline(always)]
    pub(crate) fn number(&self) -> Option<Scalar> {
        match &self.value {
            Cells::F32(bits) => Some(Scalar::F32(f32::from_bits(bits.load(Ordering::Acquire)))),
            Cells::F64(bits) => Some(Scalar::F64(f64::from_bits(bits.load(Ordering::Acquire)))),
            Cells::Any(_) => None,
        }
    }

    /// Whether it may stand in a graph under more than one leaf.
    pub(crate) fn has_several_leaves(&self) -> bool {
        self.several.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn read(&self) -> Value {
        match &self.value {
            Cells::Any(value) => Self::read_any(value),
            Cells::F32(_) | Cells::F64(_) => self.number().expect("these are numbers").into(),
        }
    }

    /// Not inlined: numbers are faster to read without.
    #[inline(never)]
    fn read_any(value: &Mutex<Value>) -> Value {
        value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows the value, while nobody else can read or change it: to code of the library's alone.
    /// What [`read`](Variable::read) would share is not touched, which another processor may have.
    #[inline]
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Value) -> R) -> R {
        match &self.value {
            Cells::Any(value) => look(&value.lock().unwrap_or_else(PoisonError::into_inner)),
            Cells::F32(_) | Cells::F64(_) => look(&self.read()),
        }
    }

    /// Puts the new value in its place, and the old one in the place of the new one: its destructor
    /// may be the user's. Whoever calls holds the lock.
    #[inline]
    pub(crate) fn exchange(&self, value: &mut Value) {
        match (&self.value, &mut value.0) {
            // whoever writes holds the lock of the commit: nobody writes in between
            (Cells::F32(bits), Repr::F32(number)) => {
                let old = bits.load(Ordering::Relaxed);
                bits.store(std::mem::replace(number, f32::from_bits(old)).to_bits(), Ordering::Release);
            }
            (Cells::F64(bits), Repr::F64(number)) => {
                let old = bits.load(Ordering::Relaxed);
                bits.store(std::mem::replace(number, f64::from_bits(old)).to_bits(), Ordering::Release);
            }
            (Cells::Any(own), Repr::Any(_)) => Self::change_any(own, |own| std::mem::swap(own, value)),
            _ => unreachable!("a weight holds the type that it was made with"),
        }
    }

    /// Changes the value where it is. Whoever calls holds the lock.
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

    /// Not inlined: numbers are faster to change without.
    #[inline(never)]
    fn change_any(value: &Mutex<Value>, change: impl FnOnce(&mut Value)) {
        change(&mut value.lock().unwrap_or_else(PoisonError::into_inner));
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        match self.commit.try_lock() {
            Ok(commit) => Some(commit),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Something that is alive as long as this variable is.
    pub(crate) fn alive(&self) -> &Arc<()> {
        self.alive.get_or_init(Arc::default)
    }
}

impl VariableRef {
    /// A handle to the leaf of this thread. Whoever calls has a handle to some leaf.
    #[inline]
    pub(crate) fn leaf(self) -> AnyLayer {
        match NonNull::new(self.leaves[thread_number()].load(Ordering::Acquire)) {
            Some(leaf) => self.handle_to(leaf),
            None => self.another_leaf(),
        }
    }

    #[inline]
    fn handle_to(self, leaf: NonNull<Node>) -> AnyLayer {
        // SAFETY: the leaf belongs to this variable, which is alive as the caller has a handle
        let (handle, came_into_use) = unsafe { AnyLayer::of_leaf(leaf) };
        if came_into_use {
            // not the last one to fall idle meanwhile: the caller has a handle, whose leaf is
            // counted
            self.live.fetch_add(1, Ordering::Relaxed);
        }
        handle
    }

    #[cold]
    fn another_leaf(self) -> AnyLayer {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = thread_number();
        let mut leaves = self.leaves.iter().map(|leaf| NonNull::new(leaf.load(Ordering::Acquire)));
        match leaves.nth(slot).flatten() {
            Some(leaf) => self.handle_to(leaf),
            None if *open => {
                self.several.store(true, Ordering::Release);
                self.new_leaf(slot)
            }
            // no more leaves are made: any will do
            None => {
                let leaf = self.leaves.iter().find_map(|leaf| NonNull::new(leaf.load(Ordering::Acquire)));
                self.handle_to(leaf.expect("a variable is made with a leaf"))
            }
        }
    }

    fn new_leaf(self, slot: usize) -> AnyLayer {
        let leaf = AnyLayer::first(|| {
            Node::new(Count::leaf(), Origin::NONE, self.place, self.kind_of_data, Expression::Weight(self, slot as u8))
        });
        self.leaves[slot].store(leaf.as_ptr().as_ptr(), Ordering::Release);
        leaf
    }

    /// From now on the leaves are counted. To be called once, by the first handle, which has a
    /// handle to a leaf still.
    pub(crate) fn first_handle_goes(self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = false;
        drop(open);
        for leaf in &self.leaves {
            if let Some(leaf) = NonNull::new(leaf.load(Ordering::Acquire)) {
                // counted before it can report that it has fallen idle
                self.live.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the leaf belongs to this variable, which is alive as the caller has a
                // handle
                let node = unsafe { leaf.as_ref() };
                node.guarded.used();
                if !node.count.make_strict() {
                    // SAFETY: it was counted just now; the caller's leaf is in use
                    unsafe { self.leaf_fell_idle() };
                }
            }
        }
        // SAFETY: this one stood for the first handle, whose leaf is in use
        unsafe { self.leaf_fell_idle() };
    }

    /// One leaf less is in use. If it was the last one, the variable is dropped.
    ///
    /// # Safety
    /// The leaf was counted in `live`, and nobody uses the variable through it any more.
    pub(super) unsafe fn leaf_fell_idle(self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        for leaf in &self.leaves {
            if let Some(leaf) = NonNull::new(leaf.load(Ordering::Acquire)) {
                // SAFETY: no leaf is in use, and only whoever has a handle to one can come by
                // another
                unsafe { discard_leaf(leaf) };
            }
        }
        self.guarded.gone();
        // SAFETY: `create` took it out of a box; no leaf is left that points to it. A model checker
        // looks at what is gone
        unsafe {
            if cfg!(any(shuttle, loom)) {
                self.0.drop_in_place();
            } else {
                drop(Box::from_raw(self.0.as_ptr()));
            }
        }
    }
}

/// The variable of a leaf.
///
/// # Safety
/// `leaf` is a leaf of a variable that is alive.
pub(super) unsafe fn variable_of(leaf: NonNull<Node>) -> VariableRef {
    // SAFETY: passed on
    let leaf = unsafe { leaf.as_ref() };
    leaf.guarded.used();
    match &leaf.expression {
        Expression::Weight(variable, _) => *variable,
        _ => unreachable!("only leaves report"),
    }
}

thread_local! {
    static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// In a model: from now on this thread uses this leaf.
#[cfg(all(test, any(shuttle, loom)))]
pub(crate) fn use_leaf(number: usize) {
    SLOT.set(number);
}

impl Node {
    /// Whether it is the leaf of a weight that this thread uses.
    #[inline]
    pub(crate) fn is_leaf_of_this_thread(&self) -> bool {
        matches!(&self.expression, Expression::Weight(_, leaf) if usize::from(*leaf) == thread_number())
    }
}

/// A number for this thread, below [`LEAVES`]: that of the leaf that it uses. Threads that come one
/// after the other have numbers one after the other.
#[inline]
pub(crate) fn thread_number() -> usize {
    match SLOT.get() {
        usize::MAX => {
            globals! {
                static NEXT: AtomicUsize = AtomicUsize::new(0);
            }
            let slot = NEXT.fetch_add(1, Ordering::Relaxed) % LEAVES;
            SLOT.set(slot);
            slot
        }
        slot => slot,
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn a_weight_knows_who_has_met_it_last() {
        let weight = crate::Weight::new(1.0_f32);
        let leaf = crate::Differentiable::layer(&weight).into_any();
        let variable = leaf.as_variable().expect("a weight");
        assert_eq!(variable.met_elsewhere(), 0, "nobody has");
        SLOT.set(3);
        variable.meet();
        assert_eq!(variable.met_elsewhere(), 0);
        SLOT.set(2);
        assert_eq!(variable.met_elsewhere(), 1);
        SLOT.set(4);
        assert_eq!(variable.met_elsewhere(), LEAVES - 1);
    }

    #[test]
    fn what_passes_and_commits_look_at_is_in_one_line() {
        assert!(offset_of!(Variable, kind_of_data) <= align_of::<Variable>());
    }
}
