//! The compile error for `!x` in a function without `#[differentiable]`, where `!` is Rust's "not".
//!
//! The implementations below can never be used. Where the compiler looks for one, it reports their
//! unsatisfied bound and shows the line of [`ThisFunction`].

use crate::api::deferred::Do;
use crate::api::weight::Weight;
use crate::graph::layer::Layer;
use std::ops::Not;

/// Implemented by no type.
pub trait AttributeDifferentiable<X: ?Sized> {}

#[rustfmt::skip]
pub struct ThisFunction; // write `#[differentiable]` before it, so that `!x` is the value of `x`

macro_rules! not_without_attribute {
    ($($X:ident),*) => {$(
        #[doc(hidden)]
        impl<T> Not for $X<T>
        where
            ThisFunction: AttributeDifferentiable<$X<T>>,
        {
            type Output = T;

            fn not(self) -> T {
                unreachable!("no function implements `AttributeDifferentiable`")
            }
        }

        #[doc(hidden)]
        impl<T> Not for &$X<T>
        where
            ThisFunction: AttributeDifferentiable<$X<T>>,
        {
            type Output = T;

            fn not(self) -> T {
                unreachable!("no function implements `AttributeDifferentiable`")
            }
        }
    )*};
}

not_without_attribute!(Layer, Weight, Do);
