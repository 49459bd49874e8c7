//! The compile error for `x[i]` of a layer, in the way of `compared`.

use crate::api::weight::Weight;
use crate::graph::layer::Layer;
use crate::macro_support::compared::NoValueYet;
use std::ops::Index;

/// Implemented by no usable type, so that the compiler prints its message.
#[diagnostic::on_unimplemented(
    message = "a `{X}` cannot be indexed: it has no value yet",
    label = "not a value yet",
    note = "`x.at([i, j])` is a layer with one element of a tensor, and `x.slice(…)` a layer with a part of it",
    note = "in a `#[differentiable]` function that returns a layer, `!x` is the value of `x`: `(!x)[[i, j]]`"
)]
pub trait IndexedBy<I, X> {}

// Two implementations, for the reason in `compared`.
enum This {}
enum That {}
#[diagnostic::do_not_recommend]
impl<X> IndexedBy<This, X> for NoValueYet<X> {}
#[diagnostic::do_not_recommend]
impl<X> IndexedBy<That, X> for NoValueYet<X> {}

macro_rules! without_elements {
    ($($X:ident),*) => {$(
        #[doc(hidden)]
        impl<T, I> Index<I> for $X<T>
        where
            NoValueYet<$X<T>>: IndexedBy<I, $X<T>>,
        {
            type Output = T;

            fn index(&self, _: I) -> &T {
                unreachable!("layers are never indexed")
            }
        }
    )*};
}

without_elements!(Layer, Weight);
