//! Call frames and recorded branches of annotated functions.

use crate::error::branch::Branch;
use crate::error::call_context::{self, FunctionGuard};
use crate::error::call_tree::{Function, FunctionScope};
use crate::exec;
use std::any::type_name;
use std::panic::Location;

/// The call frame of a running function. Dropping it leaves the function.
#[must_use = "the function is left when this is dropped"]
pub struct CallFrame {
    _function: FunctionGuard,
}

impl CallFrame {
    /// Runs the body within the frame.
    #[inline(always)]
    pub fn run<R>(self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// Enters a function of this module.
#[inline]
#[track_caller]
pub fn function(module: &'static str, name: &'static str) -> CallFrame {
    enter(FunctionScope::Module(module), name, Location::caller())
}

/// Enters a method of this type.
#[inline]
#[track_caller]
pub fn method<T: ?Sized>(name: &'static str) -> CallFrame {
    enter(FunctionScope::Type(type_name::<T>()), name, Location::caller())
}

#[inline]
fn enter(scope: FunctionScope, name: &'static str, from: &'static Location<'static>) -> CallFrame {
    CallFrame { _function: call_context::enter_function(Function { scope, name }, from) }
}

/// Records that the body that this thread polls takes this arm.
#[inline]
pub fn took(branch: &'static Branch, arm: usize) {
    exec::with_current(|pass| {
        if let Some(pass) = pass {
            pass.took(branch, arm);
        }
    });
}

/// Records the first arm: the condition holds.
#[inline]
pub fn yes(branch: &'static Branch) -> bool {
    took(branch, 0);
    true
}

/// Records the second arm: the condition does not hold.
#[inline]
pub fn no(branch: &'static Branch) -> bool {
    took(branch, 1);
    false
}
