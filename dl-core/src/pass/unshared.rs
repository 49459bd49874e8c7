//! Passes that nobody else has.
//!
//! Whether an `Arc` is the only one is a question that takes an instruction for which all others wait, and a small pass would ask it when it begins and when it is over. So who knows it says it in the type.

use super::Pass;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The only handle to a pass; there is no weak one either.
pub(super) struct Unshared(Arc<Pass>);

impl Unshared {
    pub(super) fn new(pass: Pass) -> Self {
        Unshared(Arc::new(pass))
    }

    /// This pass, if nobody else has it.
    pub(super) fn of(mut pass: Arc<Pass>) -> Result<Self, Arc<Pass>> {
        if Arc::get_mut(&mut pass).is_some() { Ok(Unshared(pass)) } else { Err(pass) }
    }

    /// This pass, of which that is known.
    ///
    /// # Safety
    /// Nobody else has a handle to it, nor a weak one.
    pub(super) unsafe fn known(mut pass: Arc<Pass>) -> Self {
        debug_assert!(Arc::get_mut(&mut pass).is_some(), "somebody else has the pass");
        Unshared(pass)
    }

    /// From now on others may have it.
    pub(super) fn share(self) -> Arc<Pass> {
        self.0
    }
}

impl Deref for Unshared {
    type Target = Pass;

    fn deref(&self) -> &Pass {
        &self.0
    }
}

impl DerefMut for Unshared {
    #[inline]
    fn deref_mut(&mut self) -> &mut Pass {
        // SAFETY: nobody else has a handle, and nobody is given one before `share`
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
    }
}
