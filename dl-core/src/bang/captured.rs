//! The variables that a `direct!` block captures: copied when the block is built, lent or cloned to every run.
//!
//! A reference is lent again as a reference, anything else is cloned:
//!
//! ```text
//! capture(&x).keep():  Capture (`&U`: a copy of what it refers to) -> CaptureValue (`Clone`)
//! ```

use super::kept::{CanBeKept, CanBeLent, Given};
use std::borrow::Borrow;
use std::marker::PhantomData;
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
        Lent(self.0.0.kept(), PhantomData)
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

/// Kept, and lent to each run.
pub struct Lent<U: ?Sized, Kept>(Kept, PhantomData<fn(&U)>);

impl<U: ?Sized, Kept: Borrow<U>> Lent<U, Kept> {
    /// What a run gets.
    pub fn take(&self) -> &U {
        self.0.borrow()
    }
}
