//! The context of a thread: the pass whose futures it polls, and the pass that it computes for.

use crate::exec::settings::Mode;
use crate::exec::{Owner, Pass};
use dl_parallel::sync::thread_local;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

#[derive(Clone, Copy)]
struct Context {
    /// The pass that owns the futures which this thread polls, borrowed from the caller of [`polling`].
    pass: Option<NonNull<Arc<Pass>>>,
    /// Whether it polls a task of that pass rather than the driver's own future.
    in_task: bool,
    /// Whether this thread may compute for the passes that it polls: inside `wait()`, and in
    /// workers.
    may_work: bool,
    /// The pass for which this thread computes or drops values.
    computing_for: Option<NonNull<Arc<Pass>>>,
    /// The pass that this thread was polling when it entered the innermost nested wait.
    left: Option<NonNull<Left>>,
}

/// A pass that a thread was polling when it entered a nested wait, on the stack of that wait.
struct Left {
    pass: NonNull<Arc<Pass>>,
    /// The same for the next wait further out.
    before: Option<NonNull<Left>>,
}

thread_local! {
    static CONTEXT: Cell<Context> =
        const { Cell::new(Context { pass: None, in_task: false, may_work: false, computing_for: None, left: None }) };
}

struct Restore(Context);

impl Drop for Restore {
    fn drop(&mut self) {
        CONTEXT.set(self.0);
    }
}

fn with<R>(context: Context, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(CONTEXT.replace(context));
    f()
}

/// Polls a future of this pass: a task, or the future of a driver.
pub(super) fn polling<R>(pass: &Arc<Pass>, in_task: bool, f: impl FnOnce() -> R) -> R {
    let context = CONTEXT.get();
    let may_work = in_task || context.may_work;
    with(Context { pass: Some(NonNull::from(pass)), in_task, may_work, computing_for: None, ..context }, f)
}

/// Computes or drops values of this pass.
pub(crate) fn computing<R>(pass: &Arc<Pass>, f: impl FnOnce() -> R) -> R {
    with(Context { computing_for: Some(NonNull::from(pass)), pass: None, in_task: false, ..CONTEXT.get() }, f)
}

/// Computes a value that a body is about to return, as a kernel of the pass of the body. Its
/// regions are announced there, so that the waiting thread helps.
pub(crate) fn computing_in_task<R>(f: impl FnOnce() -> R) -> R {
    with_current(|pass| match pass.filter(|_| in_task()) {
        Some(pass) => computing(pass, f),
        None => f(),
    })
}

/// Runs `f` on a thread that blocks for it: outside of any pass, and allowed to compute.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let context = CONTEXT.get();
    let here = context.pass.map(|pass| Left { pass, before: context.left });
    let left = here.as_ref().map(NonNull::from).or(context.left);
    with(Context { pass: None, in_task: false, may_work: true, left, ..context }, f)
}

/// Parks this waiting thread. In the passes that it was polling it counts as blocked.
pub(crate) fn parking(park: impl FnOnce()) {
    let mut left: Vec<Arc<Pass>> = Vec::new();
    let mut next = CONTEXT.get().left;
    while let Some(wait) = next {
        // SAFETY: `outside` keeps the entry until it has restored the context, after this wait. So
        // does `polling`, further out, with the pass that it borrows.
        let Left { pass, before } = unsafe { wait.as_ref() };
        // SAFETY: as above.
        left.push(unsafe { pass.as_ref() }.clone());
        next = *before;
    }
    left.iter().for_each(Pass::block_begin);
    park();
    left.iter().for_each(|pass| pass.block_end());
}

/// The pass that owns the future which this thread polls.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Arc<Pass>>) -> R) -> R {
    let pass = CONTEXT.get().pass;
    // SAFETY: `polling` borrows the pass until it restores the context, which is after `f`.
    f(pass.as_ref().map(|pass| unsafe { pass.as_ref() }))
}

pub(crate) fn current() -> Option<Arc<Pass>> {
    with_current(|pass| pass.cloned())
}

pub(crate) fn is_current(pass: &Pass) -> bool {
    with_current(|current| current.is_some_and(|current| std::ptr::eq(&**current, pass)))
}

pub(super) fn may_work() -> bool {
    CONTEXT.get().may_work || dl_parallel::sync::current_thread_index().is_some()
}

/// Whether this thread polls a task and counts as working.
pub(super) fn in_task() -> bool {
    CONTEXT.get().in_task
}

/// The pass for which this thread computes values.
#[inline]
pub(crate) fn with_computing<R>(f: impl FnOnce(Option<&Arc<Pass>>) -> R) -> R {
    let pass = CONTEXT.get().computing_for;
    // SAFETY: as in `with_current`
    f(pass.as_ref().map(|pass| unsafe { pass.as_ref() }))
}

/// Whether the kernel that this thread runs belongs to a pass that keeps no values for a backward.
pub(crate) fn discards_values() -> bool {
    with_computing(|pass| pass.is_some_and(|pass| pass.discards()))
}

/// Whether the pass of this thread was begun inside a training step.
#[inline]
pub(crate) fn in_step() -> bool {
    with_current(|pass| pass.is_some_and(|pass| pass.is_in_step()))
        || with_computing(|pass| pass.is_some_and(|pass| pass.is_in_step()))
}

pub(super) fn mode() -> Option<Mode> {
    with_current(|pass| pass.map(|pass| pass.mode())).or_else(|| with_computing(|pass| pass.map(|pass| pass.mode())))
}

/// The handle of a tape or of gradients to their pass. It is strong, except inside a task of that
/// same pass: the pass itself holds the task.
#[derive(Clone)]
pub(crate) enum PassRef {
    Strong(Owner),
    Weak(Weak<Pass>),
}

impl PassRef {
    pub(crate) fn pass(&self) -> Option<Owner> {
        match self {
            PassRef::Strong(pass) => Some(pass.clone()),
            PassRef::Weak(pass) => Owner::upgrade(pass),
        }
    }

    /// Whether the handle is to this pass.
    pub(crate) fn is(&self, pass: &Arc<Pass>) -> bool {
        match self {
            PassRef::Strong(held) => Arc::ptr_eq(held, pass),
            PassRef::Weak(held) => std::ptr::eq(held.as_ptr(), Arc::as_ptr(pass)),
        }
    }

    /// For a tape or gradients that are made by the current code.
    pub(crate) fn of(pass: &Arc<Pass>) -> PassRef {
        match in_task() && is_current(pass) {
            true => PassRef::Weak(Arc::downgrade(pass)),
            false => PassRef::Strong(pass.clone().into()),
        }
    }

    /// A handle to this pass, for the current code.
    pub(crate) fn here() -> PassRef {
        with_current(|pass| PassRef::of(pass.expect("a tape is made in a pass")))
    }
}
