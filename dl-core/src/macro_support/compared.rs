//! What `a > b` says of layers and weights: that they have no value yet.
//!
//! The implementations below can never be used. They exist because the compiler looks for one
//! before it says that there is none, and asks for what this one needs.

use crate::api::deferred::Do;
use crate::api::layer::Layer;
use crate::api::weight::Weight;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// What can be compared though it has no value yet: nothing. It is what a compile error speaks of.
#[diagnostic::on_unimplemented(
    message = "a `{X}` has no value yet that could be compared: write `!` in front of it",
    label = "not a value yet",
    note = "in a `#[differentiable]` function that returns a layer, `!x` is the value of `x`: `if !a > !b`",
    note = "elsewhere, `x.predict().wait()?` is the value of a layer, and `w.value()` that of a weight"
)]
pub trait ComparedWith<R: ?Sized, X: ?Sized> {}

/// Something that has no value yet.
pub struct NoValueYet<X: ?Sized>(PhantomData<X>);

// As long as the right side is not known, the compiler must believe that there may be one.
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
                unreachable!("nothing is compared with what has no value")
            }
        }

        #[doc(hidden)]
        impl<T, R: ?Sized> PartialOrd<R> for $X<T>
        where
            NoValueYet<$X<T>>: ComparedWith<R, $X<T>>,
        {
            fn partial_cmp(&self, _: &R) -> Option<Ordering> {
                unreachable!("nothing is compared with what has no value")
            }
        }
    )*};
}

incomparable!(Layer, Weight, Do);
