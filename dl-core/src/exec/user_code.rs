//! The boundary to user code: kernels, bodies, rules, estimates, wakers, destructors.
//!
//! User code may panic. Every call of the executor goes through this module, which turns a panic
//! into an error, or drops it where no caller could get it. Nothing here takes a lock: which locks
//! may be held is said at the head of `exec/mod.rs`.

use crate::error::{Error, Result};
use dl_parallel::panic_payload::drop_payload;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls user code. A panic becomes an error.
#[inline(always)]
pub(crate) fn run<R>(call: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(call)).map_err(Error::panic)
}

/// Calls user code which may fail in either way.
#[inline(always)]
pub(crate) fn run_fallible<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(Error::panic(payload)))
}

/// Calls user code, and drops a panic: the work it belongs to has been done, or has failed, and no
/// caller could get the panic.
#[inline(always)]
pub(crate) fn ignore_panic(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        drop_payload(payload);
    }
}
