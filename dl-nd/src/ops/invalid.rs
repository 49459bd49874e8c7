//! Layers that fail because of an argument that is invalid for all operands.

use dl_core::{At, BuiltIn, Data, Error, Layer, Primitive, Result};
use std::marker::PhantomData;

/// A layer that fails with this error, reported under the name of an operation.
#[track_caller]
pub(crate) fn invalid<T: Data>(name: &'static str, error: Error) -> Layer<T> {
    Layer::apply_built_in(Refused { name, error, output: PhantomData }, Vec::new())
}

/// An error unless a number is finite and not negative.
pub(crate) fn check_non_negative(what: &str, number: f64) -> Result<()> {
    if number >= 0.0 && number.is_finite() {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} is {number}; it must be finite and not negative")))
}

/// An error unless a number is between 0 and 1.
pub(crate) fn check_fraction(what: &str, number: f64) -> Result<()> {
    if (0.0..=1.0).contains(&number) {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} is {number}; it must lie between 0 and 1")))
}

#[derive(Clone)]
struct Refused<T> {
    name: &'static str,
    error: Error,
    output: PhantomData<fn() -> T>,
}

impl<T: Data> Primitive for Refused<T> {
    type Operands = Vec<Layer<T>>;
    type Output = T;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, _: Vec<&T>) -> Result<T> {
        Err(self.error.clone())
    }

    fn pullback(&self, _: &At<'_, Self>) -> Vec<Option<Layer<T::Delta>>> {
        Vec::new()
    }
}

impl<T: Data> BuiltIn for Refused<T> {}
