//! The variables that a `direct!` block captures. They are copied when the block is built, and
//! borrowed or cloned by each run.
//!
//! A captured reference is passed to each run as a reference, and any other value is cloned:
//!
//! ```text
//! capture(&x).keep():  Capture (`&U`: a copy of what it refers to) -> CaptureValue (`Clone`)
//! ```

use crate::macro_support::params::{BorrowedParam, CanBeKept, CanBeLent, ClonedParam, keep_lent};
use std::ops::Deref;

/// Captures a variable.
pub fn capture<T: ?Sized>(variable: &T) -> Capture<'_, T> {
    Capture(CaptureValue(variable))
}

pub struct Capture<'a, T: ?Sized>(CaptureValue<'a, T>);
pub struct CaptureValue<'a, T: ?Sized>(&'a T);

impl<'a, T: ?Sized> Deref for Capture<'a, T> {
    type Target = CaptureValue<'a, T>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a, U: CanBeLent + ?Sized> Capture<'a, &'a U> {
    /// Stores a copy of the referent.
    pub fn keep(&self) -> BorrowedParam<U, U::Kept> {
        keep_lent(self.0.0)
    }
}

impl<T> CaptureValue<'_, T> {
    /// Stores a copy of the variable.
    pub fn keep<Kept>(&self) -> ClonedParam<Kept>
    where
        T: CanBeKept<Kept = Kept>,
    {
        ClonedParam::new::<T>(self.0.copied())
    }
}
