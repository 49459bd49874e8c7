//! Whether a thread is computing an optimizer step.

use crate::exec;
use dl_parallel::sync::thread_local;
use std::cell::Cell;

thread_local! {
    /// Whether this thread is computing an update. The optimizer may evaluate layers and take
    /// nested steps meanwhile.
    pub(crate) static IN_OPTIMIZER_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is computing an update, or works for a pass that was started there.
#[inline]
pub(crate) fn in_optimizer_step() -> bool {
    IN_OPTIMIZER_STEP.get() || exec::in_step()
}
