//! The lifetime of a pass.
//!
//! *Owners* (runs, tapes, gradients) keep the values of a pass alive. A *ticket* is a weak handle.
//! Helpers and the wakers of bodies hold one, and upgrade it while they look for work. When the
//! last owner is dropped, the pass is *retired*: its values and nodes are released, even if a
//! preempted helper holds the pass for longer. If a job is running, its nodes stay until it ends;
//! it owns its operands.
//!
//! A retired pass must not be driven again, so an owner can only be cloned from another owner.

use crate::error::Result;
use crate::exec::exclusive_pass::Unshared;
use crate::exec::{Pass, user_code};
use dl_parallel::sync::{AtomicUsize, Ordering};
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// An event count: incremented when a job is queued or a waker is about to be called, for which
/// idle threads spin. It can be read without the pass.
#[derive(Default)]
pub(super) struct Events(AtomicUsize);

impl Events {
    #[inline]
    pub(super) fn count(&self) -> usize {
        // Acquire: synchronizes with `notify`. Jobs queued before the event are visible.
        self.0.load(Ordering::Acquire)
    }

    /// Makes the threads that spin for an event check the queue.
    #[inline]
    pub(super) fn notify(&self) {
        // Release: synchronizes with `count`.
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// A weak handle to a pass.
pub(super) struct Ticket {
    pass: Weak<Pass>,
    events: Arc<Events>,
}

impl Ticket {
    pub(super) fn of(pass: &Arc<Pass>) -> Self {
        Ticket { pass: Arc::downgrade(pass), events: pass.events.clone() }
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    /// The pass, if it still exists.
    pub(super) fn upgrade(&self) -> Option<Arc<Pass>> {
        self.pass.upgrade()
    }
}

/// A strong handle to a pass, which keeps its values alive.
pub(crate) struct Owner {
    /// `None` once it has been released.
    pass: Option<Arc<Pass>>,
}

impl Owner {
    /// Another owner, unless the pass is retired.
    pub(super) fn upgrade(pass: &Weak<Pass>) -> Option<Owner> {
        let pass = pass.upgrade()?;
        // Relaxed: only the count matters here. Values are read under the state lock.
        let more =
            pass.owners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owners| (owners > 0).then_some(owners + 1));
        more.is_ok().then_some(Owner { pass: Some(pass) })
    }

    /// Whether this is the only owner.
    pub(super) fn is_only(pass: &Pass) -> bool {
        // Acquire: synchronizes with the `fetch_sub` of owners that were dropped.
        pass.owners.load(Ordering::Acquire) <= 1
    }

    /// Releases this owner. If it is the last one, the pass ends: its values and nodes are dropped,
    /// and its tables are kept for the next pass unless another thread holds the pass.
    ///
    /// # Errors
    /// The panic of a destructor.
    pub(crate) fn part(mut self) -> Result<()> {
        match self.release() {
            Some((pass, true)) => Pass::end(pass),
            Some((pass, false)) => pass.state().deferred.take_fault(),
            None => Ok(()),
        }
    }

    /// Takes the pass out of this owner. Returns whether it was the last owner.
    fn release(&mut self) -> Option<(Arc<Pass>, bool)> {
        let pass = self.pass.take()?;
        // AcqRel: the last owner must see all writes of the others.
        let is_last = pass.owners.fetch_sub(1, Ordering::AcqRel) == 1;
        Some((pass, is_last))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some((pass, true)) = self.release() {
            pass.retire();
        }
    }
}

impl From<Arc<Pass>> for Owner {
    fn from(pass: Arc<Pass>) -> Owner {
        // Relaxed, as for an `Arc`: the caller holds a handle.
        pass.owners.fetch_add(1, Ordering::Relaxed);
        Owner { pass: Some(pass) }
    }
}

impl Clone for Owner {
    fn clone(&self) -> Self {
        Arc::clone(self).into()
    }
}

impl Deref for Owner {
    type Target = Arc<Pass>;

    fn deref(&self) -> &Arc<Pass> {
        self.pass.as_ref().expect("it has not been given up")
    }
}

impl Pass {
    /// The last owner was dropped.
    fn retire(self: &Arc<Self>) {
        let mut state = self.state();
        let retired = state.retire();
        self.release(state);
        // Without the lock: destructors may be user code.
        drop(retired);
    }

    /// The same if another thread still holds the pass; otherwise its tables are kept for the next
    /// pass.
    fn end(pass: Arc<Pass>) -> Result<()> {
        match Unshared::of(pass) {
            Ok(over) => over.close(),
            Err(pass) => {
                let retired = user_code::run(|| pass.retire());
                let fault = pass.state().deferred.take_fault();
                retired.and(fault)
            }
        }
    }
}
