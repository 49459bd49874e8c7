//! The bang as a future: run a layer forward and hand back its data.

use crate::data::Data;
use crate::deferred::{Belongs, Do, Run};
use crate::error::{Error, Result};
use crate::node::AnyLayer;
use crate::pass::{self, Pass, Purpose, user_code};
use crate::value::{Repr, Value};
use std::any::TypeId;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

/// The forward value of a layer, as a future. Made by [`Layer::extract`](crate::Layer::extract).
///
/// It belongs to the pass in which it is first polled, and may be polled anywhere afterwards.
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
pub struct Extract<T>(State<T>);

enum State<T> {
    /// It was there already; present until it is polled.
    AtHand(Option<Result<T>>),
    Waits(ExtractValue),
}

impl<T> Unpin for Extract<T> {}

impl<T> Extract<T> {
    pub(crate) fn new(layer: AnyLayer) -> Self {
        Extract(State::Waits(ExtractValue::new(layer)))
    }

    pub(crate) fn at_hand(value: Result<T>) -> Self {
        Extract(State::AtHand(Some(value)))
    }
}

impl<T: Data> Future for Extract<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::AtHand(value) => Poll::Ready(value.take().expect("an extract is not polled after it has ended")),
            State::Waits(value) => Pin::new(&mut *value).poll(cx).map(|result| hand_out(result?, &value.layer)),
        }
    }
}

/// The value of this layer, as the user gets it: a clone, if somebody else has it still.
pub(crate) fn hand_out<T: Data>(value: Value, layer: &AnyLayer) -> Result<T> {
    let hand_out = || {
        pass::computing_in_task(|| T::settle(&[value.get()]));
        value.into()
    };
    user_code::run(hand_out).map_err(|error| error.at("handing out a value", layer.site()))
}

/// The same, with the type forgotten.
pub(crate) struct ExtractValue {
    layer: AnyLayer,
    bound: Bound,
}

/// The pass that an extract belongs to.
enum Bound {
    Not,
    /// To a pass that somebody else drives.
    To(Weak<Pass>),
    /// To a pass of its own.
    Own(Box<Run<Value>>),
}

impl ExtractValue {
    pub(crate) fn new(layer: AnyLayer) -> Self {
        ExtractValue { layer, bound: Bound::Not }
    }
}

impl Future for ExtractValue {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &mut this.bound {
            Bound::Not => {
                let here = pass::with_current(|pass| {
                    let pass = pass?;
                    let polled = pass.poll_value(&this.layer, cx.waker());
                    if polled.is_pending() {
                        this.bound = Bound::To(Arc::downgrade(pass));
                    }
                    Some(polled)
                });
                if let Some(polled) = here {
                    polled
                } else {
                    let layer = this.layer.clone();
                    let alone = Do::starting(Belongs::Own(Purpose::Predict), move || ExtractValue::new(layer.clone()));
                    let mut run = Box::new(alone.run());
                    let polled = Pin::new(&mut *run).poll(cx);
                    this.bound = Bound::Own(run);
                    polled
                }
            }
            Bound::To(pass) => match pass.upgrade() {
                Some(pass) => pass.poll_value(&this.layer, cx.waker()),
                None => Poll::Ready(Err(Error::cancelled())),
            },
            Bound::Own(run) => Pin::new(&mut **run).poll(cx),
        }
    }
}

/// How many layers are asked for under one lock.
const AT_ONCE: usize = 128;

/// The forward values of many layers of the current pass, evaluated in parallel. The leftmost error
/// is the one reported.
pub(crate) struct ExtractAll {
    layers: Vec<AnyLayer>,
    results: Vec<Result<Value>>,
    requested: bool,
    settles: bool,
}

impl ExtractAll {
    pub(crate) fn new(layers: Vec<AnyLayer>) -> Self {
        ExtractAll { results: Vec::with_capacity(layers.len()), layers, requested: false, settles: true }
    }

    /// The same, for whoever [settles] the values later.
    pub(crate) fn unsettled(layers: Vec<AnyLayer>) -> Self {
        ExtractAll { settles: false, ..ExtractAll::new(layers) }
    }
}

impl Future for ExtractAll {
    type Output = Result<Vec<Value>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let pass = pass::current().expect("many layers are extracted by a run, in its pass");
        if !std::mem::replace(&mut this.requested, true) {
            pass.request(&this.layers);
        }
        while let Some(first) = this.layers.get(this.results.len()) {
            let known = this.results.len();
            let next = &this.layers[known..this.layers.len().min(known + AT_ONCE)];
            pass.outcomes(next, &mut this.results);
            if this.results.len() == known {
                this.results.push(ready!(pass.poll_value(first, cx.waker())));
            }
        }
        let values = Error::all(std::mem::take(&mut this.results))?;
        if this.settles {
            settle(&this.layers, &values)?;
        }
        Poll::Ready(Ok(values))
    }
}

/// Makes the values of these layers what they are: those of one type together.
pub(crate) fn settle(layers: &[AnyLayer], values: &[Value]) -> Result<()> {
    let mut settled: Vec<TypeId> = Vec::new();
    for (layer, value) in layers.iter().zip(values) {
        let kind = layer.kind_of_data;
        let id = (kind.id)();
        if !matches!(value.0, Repr::Any(_)) || settled.contains(&id) {
            continue;
        }
        settled.push(id);
        let of_kind = layers.iter().zip(values).filter(|(layer, _)| (layer.kind_of_data.id)() == id);
        let of_kind: Vec<&Value> = of_kind.map(|(_, value)| value).collect();
        user_code::run(|| pass::computing_in_task(|| (kind.settle)(&of_kind)))
            .map_err(|error| error.at(layer.name(), layer.site()))?;
    }
    Ok(())
}
