//! The variables that a `direct!` block captures: copied when the block is built, lent or cloned to
//! every run.
//!
//! A reference is lent again as a reference, anything else is cloned:
//!
//! ```text
//! capture(&x).keep():  Capture (`&U`: a copy of what it refers to) -> CaptureValue (`Clone`)
//! ```

use crate::macro_support::params::{CanBeKept, CanBeLent, Given, Lent, keep_lent};
use std::ops::Deref;

/// A variable.
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
    /// Keeps a copy of what the variable refers to.
    pub fn keep(&self) -> Lent<U, U::Kept> {
        keep_lent(self.0.0)
    }
}

impl<T> CaptureValue<'_, T> {
    /// Keeps a copy of the variable.
    pub fn keep<Kept>(&self) -> Given<Kept>
    where
        T: CanBeKept<Kept = Kept>,
    {
        Given::new::<T>(self.0.copied())
    }
}
