//! Values of layers as futures, with the types erased.

use crate::error::{Error, Result};
use crate::exec::computation::PassChoice;
use crate::exec::run::Run;
use crate::exec::{self, Pass, Purpose, user_code};
use crate::graph::node_ref::NodeRef;
use crate::graph::value::{Repr, Value};
use std::any::TypeId;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

/// The value of a layer, as a future: the untyped half of [`Extract`](crate::Extract).
pub(crate) struct ExtractValue {
    layer: NodeRef,
    binding: Binding,
}

/// The pass that an extraction belongs to.
enum Binding {
    Unbound,
    /// A pass driven by another future.
    Joined(Weak<Pass>),
    /// A pass of its own.
    Own(Box<Run<Value>>),
}

impl ExtractValue {
    pub(crate) fn new(layer: NodeRef) -> Self {
        ExtractValue { layer, binding: Binding::Unbound }
    }

    pub(crate) fn layer(&self) -> &NodeRef {
        &self.layer
    }
}

impl Future for ExtractValue {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &mut this.binding {
            Binding::Unbound => {
                let here = exec::with_current(|pass| {
                    let pass = pass?;
                    let polled = pass.poll_value(&this.layer, cx.waker());
                    if polled.is_pending() {
                        this.binding = Binding::Joined(Arc::downgrade(pass));
                    }
                    Some(polled)
                });
                if let Some(polled) = here {
                    polled
                } else {
                    let layer = this.layer.clone();
                    let value = move || ExtractValue::new(layer.clone());
                    let mut run = Box::new(Run::from_fn(PassChoice::New(Purpose::Predict), value));
                    let polled = Pin::new(&mut *run).poll(cx);
                    this.binding = Binding::Own(run);
                    polled
                }
            }
            Binding::Joined(pass) => match pass.upgrade() {
                Some(pass) => pass.poll_value(&this.layer, cx.waker()),
                None => Poll::Ready(Err(Error::cancelled())),
            },
            Binding::Own(run) => Pin::new(&mut **run).poll(cx),
        }
    }
}

/// The values of many layers of the current pass, evaluated in parallel. If several fail, the error
/// is the leftmost one's.
pub(crate) struct ExtractAll {
    layers: Vec<NodeRef>,
    results: Vec<Result<Value>>,
    requested: bool,
    settles: bool,
}

impl ExtractAll {
    pub(crate) fn new(layers: Vec<NodeRef>) -> Self {
        ExtractAll { results: Vec::with_capacity(layers.len()), layers, requested: false, settles: true }
    }

    /// Leaves it to the caller to [`settle`] (realize) the values.
    pub(crate) fn unsettled(layers: Vec<NodeRef>) -> Self {
        ExtractAll { settles: false, ..ExtractAll::new(layers) }
    }
}

impl Future for ExtractAll {
    type Output = Result<Vec<Value>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let pass = exec::current().expect("many layers are extracted by a run, in its pass");
        if !std::mem::replace(&mut this.requested, true) {
            pass.request(&this.layers);
        }
        ready!(pass.poll_values(&this.layers, &mut this.results, cx.waker()));
        let values = Error::all(std::mem::take(&mut this.results))?;
        if this.settles {
            settle(&this.layers, &values)?;
        }
        Poll::Ready(Ok(values))
    }
}

/// Realizes the values of these layers: computes deferred (lazy) values, all of one type together.
pub(crate) fn settle(layers: &[NodeRef], values: &[Value]) -> Result<()> {
    let mut settled: Vec<TypeId> = Vec::new();
    for (layer, value) in layers.iter().zip(values) {
        let kind = layer.vtable;
        let id = (kind.id)();
        if !matches!(value.0, Repr::Any(_)) || settled.contains(&id) {
            continue;
        }
        settled.push(id);
        let of_kind = layers.iter().zip(values).filter(|(layer, _)| (layer.vtable.id)() == id);
        let of_kind: Vec<&Value> = of_kind.map(|(_, value)| value).collect();
        user_code::run(|| exec::computing_in_task(|| (kind.settle)(&of_kind)))
            .map_err(|error| error.at(layer.name(), layer.site()))?;
    }
    Ok(())
}
