//! The meaning of `!x` and of an operand, dispatched by type.
//!
//! The dispatch uses auto-dereferencing in method look-up. Each kind is a wrapper type with a
//! method bounded by that kind, and dereferences to the next kind. The last one has the method for
//! every type, with a bound that no type satisfies; its diagnostic message names the expected
//! types.
//!
//! ```text
//! place(&x).start():  Place (extract) -> PlaceNot (`Not`) -> PlaceNeither (error)
//! ```

use crate::api::extractable::Extractable;
use crate::error::Result;
use std::cell::Cell;
use std::future::{Ready, ready};
use std::ops::{Deref, Not};

/// The bound for operands of `!` of unsupported types. No type implements it, so that the compiler
/// prints its message.
#[diagnostic::on_unimplemented(
    message = "`!` does not work on `{Self}`",
    label = "neither something to extract nor something to negate",
    note = "in a lazy `#[differentiable]` function, `!x` is the value of a layer, a weight or a `Do`, or of a tuple, an array or a \
            `Vec` of those; and \"not\" for a `bool` or an integer"
)]
pub trait Bang {}

/// The bound for operands that would have to be cloned but cannot be. No type implements it, so
/// that the compiler prints its message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is an operand here and used again later, but it cannot be cloned",
    label = "this operand would be moved",
    note = "operators in a `#[differentiable]` function duplicate the operands that are used later, and count those that belong to something \
            else, as in `f().x`, among them; borrow this one, `&x`, or give it a name of its own before: `let x = …;`"
)]
pub trait UsedAgain {}

macro_rules! chain {
    ($First:ident => $Second:ident => $Last:ident) => {
        impl<T> Deref for $First<T> {
            type Target = $Second<T>;
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl<T> Deref for $Second<T> {
            type Target = $Last<T>;
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    };
}

/// `!` of an expression by value.
pub fn value<T>(operand: T) -> Value<T> {
    Value(ValueNot(ValueNeither(Cell::new(Some(operand)))))
}

pub struct Value<T>(ValueNot<T>);
pub struct ValueNot<T>(ValueNeither<T>);
pub struct ValueNeither<T>(Cell<Option<T>>);

chain!(Value => ValueNot => ValueNeither);

impl<T> ValueNeither<T> {
    fn take(&self) -> T {
        self.0.take().expect("an operand is taken once")
    }
}

impl<T: Extractable> Value<T> {
    /// Starts the extraction.
    #[track_caller]
    pub fn start(&self) -> T::Future {
        self.take().start()
    }
}

impl<T: Not> ValueNot<T> {
    /// Negates.
    pub fn start(&self) -> Ready<Result<T::Output>> {
        ready(Ok(!self.take()))
    }
}

impl<T> ValueNeither<T> {
    /// Does not compile.
    pub fn start<Output>(&self) -> Ready<Result<Output>>
    where
        T: Bang,
    {
        unreachable!("nothing implements `Bang`")
    }
}

/// `!` of a variable or a field, by reference.
pub fn place<T>(operand: &T) -> Place<&T> {
    Place(PlaceNot(PlaceNeither(operand)))
}

pub struct Place<T>(PlaceNot<T>);
pub struct PlaceNot<T>(PlaceNeither<T>);
pub struct PlaceNeither<T>(T);

chain!(Place => PlaceNot => PlaceNeither);

impl<T: Extractable> Place<&T> {
    /// Starts the extraction.
    #[track_caller]
    pub fn start(&self) -> T::Future {
        self.0.0.0.start()
    }
}

impl<T: Not + Clone> PlaceNot<&T> {
    /// Negates.
    pub fn start(&self) -> Ready<Result<T::Output>> {
        ready(Ok(!self.0.0.clone()))
    }
}

impl<T> PlaceNeither<&T> {
    /// Does not compile.
    pub fn start<Output>(&self) -> Ready<Result<Output>>
    where
        T: Bang,
    {
        unreachable!("nothing implements `Bang`")
    }
}

/// An operand that is used again later, or is part of another value.
pub fn operand<T>(operand: &T) -> Operand<'_, T> {
    Operand(Unclonable(operand))
}

pub struct Operand<'a, T>(Unclonable<'a, T>);
pub struct Unclonable<'a, T>(&'a T);

impl<'a, T> Deref for Operand<'a, T> {
    type Target = Unclonable<'a, T>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Clone> Operand<'_, T> {
    /// A clone of the operand, which the operator consumes.
    #[inline]
    pub fn duplicate(&self) -> T {
        self.0.0.clone()
    }
}

impl<T> Unclonable<'_, T> {
    /// Does not compile.
    pub fn duplicate(&self) -> T
    where
        T: UsedAgain,
    {
        unreachable!("nothing implements `UsedAgain`")
    }
}
