//! The return types of lazy functions, which have a body that runs once per pass.

use crate::api::compiled::CompiledResult;
use crate::api::deferred::Do;
use crate::error::call_stack::Calls;
use crate::error::{Error, Result};
use crate::graph::data::Data;
use crate::graph::delta::Nothing;
use crate::graph::layer::{BodyKind, Layer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;

/// A return type of a lazy function.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` body cannot be a `{Self}`, which is not made of layers",
    label = "not a layer",
    note = "it returns a `Layer`, a `Do`, a tuple or an array of those, or a struct of them with `#[derive(Layers)]`"
)]
pub trait Lazy: CompiledResult + Clone + Send + Sync + 'static {
    /// The value of a body that runs once per pass.
    #[track_caller]
    fn lazy<F, Run>(body: F) -> Self
    where
        F: Fn() -> Run + Send + Sync + 'static,
        Run: Future<Output = Result<Self>> + Send + 'static;
}

/// Builds the return value from a body that runs once per pass.
#[track_caller]
pub fn lazy<Returned, F, Run>(body: F) -> Returned
where
    Returned: Lazy,
    F: Fn() -> Run + Send + Sync + 'static,
    Run: Future<Output = Result<Returned>> + Send + 'static,
{
    Returned::lazy(body)
}

impl<T: Data> Lazy for Layer<T> {
    #[track_caller]
    fn lazy<F, Run>(body: F) -> Self
    where
        F: Fn() -> Run + Send + Sync + 'static,
        Run: Future<Output = Result<Self>> + Send + 'static,
    {
        Layer::dynamic_of_kind(BodyKind::Function, Location::caller(), body)
    }
}

impl<T: Send + 'static> Lazy for Do<T> {
    fn lazy<F, Run>(body: F) -> Self
    where
        F: Fn() -> Run + Send + Sync + 'static,
        Run: Future<Output = Result<Self>> + Send + 'static,
    {
        let calls = Calls::here();
        Do::from_fn(move || {
            let run = calls.enter(&body);
            async move {
                let mut run = pin!(run);
                let made = poll_fn(|cx| calls.enter(|| run.as_mut().poll(cx))).await?;
                made.run().await
            }
        })
    }
}

/// The result of a body with several parts, as the value of a layer. Sharing this layer between the
/// parts runs the body once per pass.
#[derive(Clone)]
pub struct Decided<T>(T);

impl<T: Clone + Send + Sync + 'static> Data for Decided<T> {
    // No delta reaches this type: the parts are layers of their own, and this layer is only
    // extracted.
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

/// The body as one layer that all parts share.
#[track_caller]
pub fn decide<T, F, Run>(body: F) -> Layer<Decided<T>>
where
    T: Clone + Send + Sync + 'static,
    F: Fn() -> Run + Send + Sync + 'static,
    Run: Future<Output = Result<T>> + Send + 'static,
{
    let place = Location::caller();
    Layer::dynamic_of_kind(BodyKind::Function, place, move || {
        let run = body();
        async move { Ok(Layer::constant_at(Decided(run.await?), place)) }
    })
}

/// One part of the result.
#[track_caller]
pub fn part<T: Clone + Send + Sync + 'static, P: Lazy>(
    decided: &Layer<Decided<T>>,
    select: impl Fn(&T) -> P + Clone + Send + Sync + 'static,
) -> P {
    let decided = decided.clone();
    P::lazy(move || {
        let (decided, select) = (decided.extract(), select.clone());
        async move { Ok(select(&decided.await?.0)) }
    })
}

macro_rules! tuples {
    ($($($X:ident $i:tt)+;)*) => {$(
        impl<$($X: Lazy),+> Lazy for ($($X,)+) {
            #[track_caller]
            fn lazy<Body, Run>(body: Body) -> Self
            where
                Body: Fn() -> Run + Send + Sync + 'static,
                Run: Future<Output = Result<Self>> + Send + 'static,
            {
                let decided = decide(body);
                ($(part(&decided, |parts: &Self| parts.$i.clone()),)+)
            }
        }
    )*};
}

tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

impl<X: Lazy, const N: usize> Lazy for [X; N] {
    #[track_caller]
    fn lazy<F, Run>(body: F) -> Self
    where
        F: Fn() -> Run + Send + Sync + 'static,
        Run: Future<Output = Result<Self>> + Send + 'static,
    {
        let decided = decide(body);
        std::array::from_fn(|i| part(&decided, move |parts: &Self| parts[i].clone()))
    }
}

/// A result of a lazy body that is a value by its syntax: `y * 2.0`, after `let y = !x;`.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` function returns a layer, and this is a `{Self}`",
    label = "a value, where a `{Returned}` is returned",
    note = "`Layer::constant(…)` makes a layer of a value (`Do::now(…)` a `Do`), but no gradient flows through it: for a \
            gradient, compute with the layer instead of its value, without `!`"
)]
pub trait ReturnedAs<Returned> {
    /// The result.
    fn returned(self) -> Returned;
}

#[diagnostic::do_not_recommend]
impl<L: Lazy> ReturnedAs<L> for L {
    fn returned(self) -> L {
        self
    }
}

/// With a second implementation, the compiler does not infer the type of the value from that of the
/// layer.
#[diagnostic::do_not_recommend]
impl<L> ReturnedAs<L> for Infallible {
    fn returned(self) -> L {
        match self {}
    }
}

/// Checks that such a result is a layer, as that of a `Do` of a layer is.
pub fn returned<Returned, V: ReturnedAs<Returned>>(result: V) -> Returned {
    result.returned()
}

/// The bound for operands of `?` in a lazy body.
#[diagnostic::on_unimplemented(
    message = "`?` in a lazy `#[differentiable]` function does not work on `{Self}`",
    label = "not a `Result` whose error can be reported",
    note = "a failure becomes the error of the layer, so there must be one: `?` works on a `Result` whose error is a \
            `std::error::Error + Send + Sync`; for an `Option`, write `.ok_or(\"what is missing\")?`"
)]
pub trait Attempt {
    /// The success type.
    type Value;

    /// The value, or the error converted to [`Error`].
    fn attempt(self) -> Result<Self::Value>;
}

#[diagnostic::do_not_recommend]
impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Attempt for std::result::Result<T, E> {
    type Value = T;

    fn attempt(self) -> Result<T> {
        self.map_err(Error::other)
    }
}

/// Implements `?`: a failure becomes the error of the layer.
pub fn attempt<A: Attempt<Value = V>, V>(result: A) -> Result<V> {
    result.attempt()
}
