//! The compile error for comparing layers and weights, which have no value yet.
//!
//! The implementations below can never be used. The compiler finds them for `a > b` and then
//! reports their unsatisfied bound, with its message, instead of a missing implementation.
//!
//! `x > 0.0` with a reference `x` does not get here: by `&A: PartialOrd<&B>` of `core` the compiler
//! wants a reference on the right. For parameters the macro reports it (`tested_layers`).

use crate::api::deferred::Do;
use crate::api::weight::Weight;
use crate::graph::layer::Layer;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// Implemented by no usable type, so that the compiler prints its message.
#[diagnostic::on_unimplemented(
    message = "a `{X}` has no value yet that could be compared: write `!` in front of it",
    label = "not a value yet",
    note = "in a `#[differentiable]` function that returns a layer, `!x` is the value of `x`: `if !a > !b`",
    note = "elsewhere, `x.predict().wait()?` is the value of a layer, and `w.value()` that of a weight",
    note = "`x.greater(y)` compares the elements of tensors: it is a mask, for `where_` for example"
)]
pub trait ComparedWith<R: ?Sized, X: ?Sized> {}

/// A type without a value yet, for the bound.
pub struct NoValueYet<X: ?Sized>(PhantomData<X>);

// Two implementations, so that type inference does not choose one while the right side is unknown.
enum This {}
enum That {}
#[diagnostic::do_not_recommend]
impl<X: ?Sized> ComparedWith<This, X> for NoValueYet<X> {}
#[diagnostic::do_not_recommend]
impl<X: ?Sized> ComparedWith<That, X> for NoValueYet<X> {}

macro_rules! incomparable {
    ($($X:ident),*) => {$(
        #[doc(hidden)]
        impl<T, R: ?Sized> PartialEq<R> for $X<T>
        where
            NoValueYet<$X<T>>: ComparedWith<R, $X<T>>,
        {
            fn eq(&self, _: &R) -> bool {
                unreachable!("layers are never compared")
            }
        }

        #[doc(hidden)]
        impl<T, R: ?Sized> PartialOrd<R> for $X<T>
        where
            NoValueYet<$X<T>>: ComparedWith<R, $X<T>>,
        {
            fn partial_cmp(&self, _: &R) -> Option<Ordering> {
                unreachable!("layers are never compared")
            }
        }
    )*};
}

incomparable!(Layer, Weight, Do);
