//! The lifetime of a pass.
//!
//! *Owners* (runs, tapes, gradients) keep the values of a pass alive. A *ticket* is a weak handle:
//! helpers and the wakers of bodies hold one, and upgrade it for as long as they look for work.
//! When the last owner is dropped the pass is *retired*: its values and nodes are released, though
//! a helper that has been preempted may hold the pass for longer. If a job is running, its nodes
//! stay until the thread that runs it is done; its operands are its own.
//!
//! A retired pass must not be driven again, so an owner can only be made while there is another.

use crate::error::Result;
use crate::exec::exclusive_pass::Unshared;
use crate::exec::{Pass, user_code};
use dl_parallel::sync::{AtomicUsize, Ordering};
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// Counts the events that a thread without work waits for: a job was queued, a waker is to be
/// called. It can be read without the pass.
#[derive(Default)]
pub(super) struct Events(AtomicUsize);

impl Events {
    #[inline]
    pub(super) fn count(&self) -> usize {
        // Acquire: synchronizes with `notify`. What was queued before the event is seen
        self.0.load(Ordering::Acquire)
    }

    /// Threads that wait for an event look again.
    #[inline]
    pub(super) fn notify(&self) {
        // Release: synchronizes with `count`
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

    /// The pass, if it is still there.
    pub(super) fn upgrade(&self) -> Option<Arc<Pass>> {
        self.pass.upgrade()
    }
}

/// A strong handle to a pass, which keeps its values alive.
pub(crate) struct Owner {
    /// Absent once it has been given up.
    pass: Option<Arc<Pass>>,
}

impl Owner {
    /// An owner more, unless the pass is retired.
    pub(super) fn upgrade(pass: &Weak<Pass>) -> Option<Owner> {
        let pass = pass.upgrade()?;
        // Relaxed: the count alone matters here, values are read under the state lock
        let more =
            pass.owners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owners| (owners > 0).then_some(owners + 1));
        more.is_ok().then_some(Owner { pass: Some(pass) })
    }

    /// Whether there is no other owner.
    pub(super) fn is_only(pass: &Pass) -> bool {
        // Acquire: synchronizes with the `fetch_sub` of owners that are gone
        pass.owners.load(Ordering::Acquire) <= 1
    }

    /// Gives it up. If it is the last owner the pass is over: its values and nodes are dropped,
    /// and, unless another thread holds the pass, its tables are kept for the next one.
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

    /// Takes the pass out of this owner. Says whether it was the last one.
    fn release(&mut self) -> Option<(Arc<Pass>, bool)> {
        let pass = self.pass.take()?;
        // AcqRel: the last owner must see everything that the others have done
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
        // Relaxed: as for an `Arc`, the handle that it is made of is there
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
    /// The last owner is gone.
    fn retire(self: &Arc<Self>) {
        let mut state = self.state();
        let retired = state.retire();
        self.release(state);
        // without the lock: destructors may be user code
        drop(retired);
    }

    /// The same, if another thread still holds the pass; else its tables are kept for the next one.
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
