//! What `a > b` says of layers and weights: that they have no value yet.
//!
//! The implementations below can never be used. They exist because the compiler looks for one before it says that there is none, and
//! asks for what this one needs.

use crate::deferred::Do;
use crate::layer::Layer;
use crate::weight::Weight;
use std::cmp::Ordering;

/// What can be compared with something that has no value yet. Nothing implements it: it is what a compile error speaks of.
#[diagnostic::on_unimplemented(
    message = "a `{X}` has no value yet that could be compared: write `!` in front of it",
    label = "not a value yet",
    note = "in a `#[differentiable]` function that returns a layer, `!x` is the value of `x`: `if !a > !b`",
    note = "elsewhere, `x.predict().wait()?` is the value of a layer, and `w.value()` that of a weight"
)]
pub trait ComparedWith<X: ?Sized> {}

macro_rules! incomparable {
    ($($X:ident),*) => {$(
        #[doc(hidden)]
        impl<T, R: ?Sized + ComparedWith<$X<T>>> PartialEq<R> for $X<T> {
            fn eq(&self, _: &R) -> bool {
                unreachable!("nothing implements `ComparedWith`")
            }
        }

        #[doc(hidden)]
        impl<T, R: ?Sized + ComparedWith<$X<T>>> PartialOrd<R> for $X<T> {
            fn partial_cmp(&self, _: &R) -> Option<Ordering> {
                unreachable!("nothing implements `ComparedWith`")
            }
        }
    )*};
}

incomparable!(Layer, Weight, Do);
