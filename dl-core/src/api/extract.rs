//! Extraction (`!x`) as a future: evaluates a layer and returns its value.

use crate::error::Result;
use crate::exec::extract::ExtractValue;
use crate::exec::{self, user_code};
use crate::graph::data::Data;
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The forward value of a layer, as a future. Made by [`Layer::extract`](crate::Layer::extract).
///
/// It belongs to the pass in which it is first polled, and may be polled from any thread
/// afterwards.
///
/// ```
/// use dl_core::{Differentiable, Layer};
/// let x = Layer::constant(3.0_f64);
/// let squared = Layer::dynamic({
///     let x = x.clone();
///     move || {
///         let value = x.extract(); // a future
///         async move { Ok(Layer::constant(value.await?.powi(2))) }
///     }
/// });
/// assert_eq!(squared.predict().wait()?, 9.0);
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "futures do nothing unless polled: write `.await?`"]
pub struct Extract<T>(ExtractState<T>);

enum ExtractState<T> {
    /// The value was known when the future was made. `None` once it has been returned.
    Ready(Option<Result<T>>),
    Pending(ExtractValue),
}

impl<T> Unpin for Extract<T> {}

impl<T> Extract<T> {
    pub(crate) fn new(layer: NodeRef) -> Self {
        Extract(ExtractState::Pending(ExtractValue::new(layer)))
    }

    pub(crate) fn ready(value: Result<T>) -> Self {
        Extract(ExtractState::Ready(Some(value)))
    }
}

impl<T: Data> Future for Extract<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            ExtractState::Ready(value) => Poll::Ready(value.take().expect("`Extract` polled after completion")),
            ExtractState::Pending(value) => {
                Pin::new(&mut *value).poll(cx).map(|result| into_data(result?, value.layer()))
            }
        }
    }
}

/// The value as returned to the caller: moved out if this is its only owner, otherwise cloned.
pub(crate) fn into_data<T: Data>(value: Value, layer: &NodeRef) -> Result<T> {
    let into_data = || {
        exec::computing_in_task(|| T::settle(&[value.get()]));
        value.into()
    };
    user_code::run(into_data).map_err(|error| error.at("returning a value", layer.site()))
}
