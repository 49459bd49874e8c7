//! The compile error for `{}` of a layer, a weight or a `Do`, in the way of `compared`.

use crate::api::deferred::Do;
use crate::api::weight::Weight;
use crate::graph::layer::Layer;
use crate::macro_support::compared::NoValueYet;
use std::fmt;

/// Implemented by no type, so that the compiler prints its message.
#[diagnostic::on_unimplemented(
    message = "a `{X}` has no value yet that could be displayed",
    label = "not a value yet",
    note = "`x.predict().wait()?` is the value of a layer, and `w.value()` that of a weight",
    note = "in a `#[differentiable]` function that returns a layer, `!x` is the value of `x`"
)]
pub trait Displayed<X: ?Sized> {}

macro_rules! not_displayed {
    ($($X:ident),*) => {$(
        #[doc(hidden)]
        impl<T> fmt::Display for $X<T>
        where
            NoValueYet<$X<T>>: Displayed<$X<T>>,
        {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                unreachable!("layers are never displayed")
            }
        }
    )*};
}

not_displayed!(Layer, Weight, Do);
