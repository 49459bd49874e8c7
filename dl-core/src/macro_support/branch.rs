//! Which function is being run, and which way it goes on.

use crate::error::branch::Branch;
use crate::error::call_context::FunctionGuard;
use crate::error::call_tree::{Function, FunctionScope};
use crate::error::{branch as error_branch, call_context};
use std::any::type_name;
use std::panic::Location;

/// A function that is being run, until this is dropped.
#[must_use = "the function is left when this is dropped"]
pub struct Inside {
    _function: FunctionGuard,
}

impl Inside {
    /// Runs the body of the function.
    #[inline(always)]
    pub fn run<R>(self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// A function of this module.
#[inline]
#[track_caller]
pub fn function(module: &'static str, name: &'static str) -> Inside {
    enter(FunctionScope::Module(module), name, Location::caller())
}

/// A method of this type.
#[inline]
#[track_caller]
pub fn method<T: ?Sized>(name: &'static str) -> Inside {
    enter(FunctionScope::Type(type_name::<T>()), name, Location::caller())
}

#[inline]
fn enter(scope: FunctionScope, name: &'static str, from: &'static Location<'static>) -> Inside {
    Inside { _function: call_context::enter_function(Function { scope, name }, from) }
}

/// The body goes on along this arm.
#[inline]
pub fn took(branch: &'static Branch, arm: usize) {
    error_branch::took(branch, arm);
}

/// The condition holds: the first arm.
#[inline]
pub fn yes(branch: &'static Branch) -> bool {
    took(branch, 0);
    true
}

/// The condition does not hold: the second arm.
#[inline]
pub fn no(branch: &'static Branch) -> bool {
    took(branch, 1);
    false
}
