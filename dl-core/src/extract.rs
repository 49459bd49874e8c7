//! The bang as a future: run a layer forward and hand back its data.

use crate::data::Data;
use crate::deferred::{Mode, Run};
use crate::error::{Error, Result};
use crate::node::AnyLayer;
use crate::pass::{self, Pass};
use crate::value::Value;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

/// The forward value of a layer, as a future. Made by [`Layer::extract`](crate::Layer::extract).
///
/// It belongs to the pass in which it is first polled, and may be polled anywhere afterwards.
#[must_use = "futures do nothing unless polled: write `.await?`"]
pub struct Extract<T> {
    inner: ExtractAll,
    data: PhantomData<fn() -> T>,
}

impl<T> Extract<T> {
    pub(crate) fn new(layer: AnyLayer) -> Self {
        Extract { inner: ExtractAll::new(vec![layer]), data: PhantomData }
    }
}

impl<T: Data> Future for Extract<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.inner).poll(cx).map(|values| values.map(|mut values| values.remove(0).into()))
    }
}

/// The forward values of many layers, evaluated in parallel. The leftmost error is the one reported.
pub(crate) struct ExtractAll {
    layers: Vec<AnyLayer>,
    values: Vec<Value>,
    bound: Bound,
}

enum Bound {
    Not,
    /// To a pass that somebody else drives.
    To(Weak<Pass>),
    /// To a pass of its own.
    Own(Box<Run<Vec<Value>>>),
}

impl ExtractAll {
    pub(crate) fn new(layers: Vec<AnyLayer>) -> Self {
        ExtractAll { values: Vec::with_capacity(layers.len()), layers, bound: Bound::Not }
    }
}

impl Future for ExtractAll {
    type Output = Result<Vec<Value>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let pass: Arc<Pass> = match &mut this.bound {
            Bound::Not => match pass::current() {
                Some(pass) => {
                    this.bound = Bound::To(Arc::downgrade(&pass));
                    pass.request(&this.layers);
                    pass
                }
                None => {
                    let layers = std::mem::take(&mut this.layers);
                    let run = Run::new(Mode::Own(crate::pass::Mode::Predict), Box::pin(ExtractAll::new(layers)));
                    this.bound = Bound::Own(Box::new(run));
                    return self.poll(cx);
                }
            },
            Bound::To(pass) => match pass.upgrade() {
                Some(pass) => pass,
                None => return Poll::Ready(Err(Error::cancelled())),
            },
            Bound::Own(run) => return Pin::new(&mut **run).poll(cx),
        };
        while let Some(layer) = this.layers.get(this.values.len()) {
            match pass.poll_value(layer, cx.waker()) {
                Poll::Ready(Ok(value)) => this.values.push(value),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(std::mem::take(&mut this.values)))
    }
}
