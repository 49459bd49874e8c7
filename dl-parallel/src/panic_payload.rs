//! The payloads of caught panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops the payload of a caught panic. If its destructor panics, the second payload is leaked,
/// because its destructor may panic again.
pub fn drop_payload(payload: Box<dyn std::any::Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
}
