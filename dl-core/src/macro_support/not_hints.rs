//! The places where `!` is Rust's "not": closures, `async` blocks, and functions that are not lazy.
//!
//! ```text
//! not_in_a_closure(x).not():  Negatable (`Not`) -> ExtractableOperand (extractable: error) -> Unsupported (error)
//! ```

use crate::api::extractable::Extractable;
use crate::macro_support::kind::Bang;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, Not};

/// The error for `!` of an extractable value in a closure. No type implements it, so that the
/// compiler prints its message.
#[diagnostic::on_unimplemented(
    message = "`!` cannot extract a `{Self}` inside a closure or an `async` block: there, `!` is Rust's \"not\"",
    label = "this is not a `bool`, and nothing is extracted here",
    note = "a closure cannot wait for a value: take the value before (`let value = !x;`), or write a `for` loop instead of `map`; \
            in an `async` block, write `.await?`"
)]
pub trait ExtractedInAClosure {}

/// The error for `!` of an extractable value in a function that is not lazy. No type implements it,
/// so that the compiler prints its message.
#[diagnostic::on_unimplemented(
    message = "`!` cannot extract a `{Self}` here, because this function does not return a layer",
    label = "this is not a `bool`, and nothing is extracted here",
    note = "a `#[differentiable]` function is lazy, and `!` extracts, if it returns a `Layer`, a `Do`, a tuple or an array of those, or \
            `impl Expression`; `#[differentiable(lazy)]` says that another name stands for one of them"
)]
pub trait ExtractedInAPlainFunction {}

/// The error for `!` of an extractable value in a nested function. No type implements it, so that
/// the compiler prints its message.
#[diagnostic::on_unimplemented(
    message = "`!` cannot extract a `{Self}` in this function inside a `#[differentiable]` one: it has no attribute of its own",
    label = "this is not a `bool`, and nothing is extracted here",
    note = "write `#[differentiable]` in front of the inner function, too"
)]
pub trait ExtractedInANestedFunction {}

/// The `!` is in a closure.
pub struct Closure;
/// The `!` is in a nested function.
pub struct NestedFunction;
/// The `!` is in a function that is not lazy.
pub struct PlainFunction;

/// `!` in a closure.
#[inline]
pub fn not_in_a_closure<T>(operand: T) -> Negatable<T, Closure> {
    Negatable(ExtractableOperand(Unsupported(Cell::new(Some(operand))), PhantomData))
}

/// `!` in a function that is not lazy.
#[inline]
pub fn not_in_a_plain_function<T>(operand: T) -> Negatable<T, PlainFunction> {
    Negatable(ExtractableOperand(Unsupported(Cell::new(Some(operand))), PhantomData))
}

/// `!` in a nested function.
#[inline]
pub fn not_in_a_nested_function<T>(operand: T) -> Negatable<T, NestedFunction> {
    Negatable(ExtractableOperand(Unsupported(Cell::new(Some(operand))), PhantomData))
}

pub struct Negatable<T, Place>(ExtractableOperand<T, Place>);
pub struct ExtractableOperand<T, Place>(Unsupported<T>, PhantomData<Place>);
pub struct Unsupported<T>(Cell<Option<T>>);

impl<T, Place> Deref for Negatable<T, Place> {
    type Target = ExtractableOperand<T, Place>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T, Place> Deref for ExtractableOperand<T, Place> {
    type Target = Unsupported<T>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Not, Place> Negatable<T, Place> {
    /// Negates.
    #[inline]
    pub fn not(&self) -> T::Output {
        !self.0.0.0.take().expect("an operand is taken once")
    }
}

impl<T: Extractable> ExtractableOperand<T, Closure> {
    /// Does not compile.
    pub fn not(&self) -> T::Output
    where
        T: ExtractedInAClosure,
    {
        unreachable!("nothing implements `ExtractedInAClosure`")
    }
}

impl<T: Extractable> ExtractableOperand<T, PlainFunction> {
    /// Does not compile.
    pub fn not(&self) -> T::Output
    where
        T: ExtractedInAPlainFunction,
    {
        unreachable!("nothing implements `ExtractedInAPlainFunction`")
    }
}

impl<T: Extractable> ExtractableOperand<T, NestedFunction> {
    /// Does not compile.
    pub fn not(&self) -> T::Output
    where
        T: ExtractedInANestedFunction,
    {
        unreachable!("nothing implements `ExtractedInANestedFunction`")
    }
}

impl<T> Unsupported<T> {
    /// Does not compile.
    pub fn not<Output>(&self) -> Output
    where
        T: Bang,
    {
        unreachable!("nothing implements `Bang`")
    }
}
