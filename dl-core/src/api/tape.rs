//! Tapes: a forward value together with its backward pass.
//!
//! ```
//! use dl_core::{Differentiable, Do, Weight};
//! use dl_optim::Sgd;
//! let w = Weight::new(3.0_f64);
//! let tape = (&w * &w).forward().wait()?;
//! assert_eq!(*tape.data(), 9.0);
//! tape.backward(Do::now(1.0)).step(&Sgd::new(0.5)).wait()?;
//! assert_eq!(w.value(), 0.0);
//! # dl_core::Result::Ok(())
//! ```

use crate::api::deferred::Do;
use crate::api::gradient::layers_of;
use crate::api::variables::{EachVariable, Variables};
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::custom_backward;
use crate::autodiff::derivatives::pulled;
use crate::autodiff::gradients::SideEffects;
use crate::autodiff::reverse::{self, When};
use crate::error::Error;
use crate::exec::{Owner, PassRef};
use crate::graph::data::Data;
use crate::graph::delta::checked;
use crate::graph::layer::Layer;
use crate::graph::node::{AnyBackward, Outcome};
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

/// A forward value together with its backward pass. Its pass lives as long as the tape.
///
/// ```
/// use dl_core::{Differentiable, Do, Tape, Weight};
/// let w = Weight::new(3.0_f64);
/// let tape: Tape<f64, f64> = (&w * &w).forward().wait()?;
/// assert_eq!(*tape.data(), 9.0);
/// let effects = tape.backward(Do::now(1.0)); // nothing is computed yet
/// assert_eq!(effects.delta(&w).wait()?, Some(6.0));
/// # dl_core::Result::Ok(())
/// ```
pub struct Tape<T, Delta> {
    value: Value,
    source: BackwardSource,
    types: PhantomData<fn(Delta) -> T>,
}

enum BackwardSource {
    /// The value of this layer in this pass.
    Layer(NodeRef, PassRef),
    /// A user-defined backward.
    Custom(AnyBackward),
}

impl<T: Data> Tape<T, T::Delta> {
    /// A tape with a user-defined backward: `backward` maps a delta to the gradients of the
    /// weights.
    ///
    /// Each call of another tape's backward traverses everything below that tape. If n such tapes
    /// are stacked and each passes its delta on twice, the cost is 2ⁿ. For an operation with a
    /// [`Primitive`](crate::Primitive) rule the cost is n.
    ///
    /// ```
    /// use dl_core::{Differentiable, Do, Layer, Tape, Weight};
    /// use dl_optim::Sgd;
    /// // three times a weight, with a backward that claims it was ten times
    /// let w = Weight::new(1.0_f64);
    /// let tape = Do::now(()).flat_map({
    ///     let w = w.clone();
    ///     move |()| {
    ///         w.forward().map(|inner| {
    ///             Tape::new(3.0 * inner.data(), move |delta: Do<f64>| inner.backward(delta.map(|d| 10.0 * d)))
    ///         })
    ///     }
    /// });
    /// let layer: Layer<f64> = Layer::from(tape);
    /// assert_eq!(layer.train(&Sgd::new(0.1)).wait()?, 3.0);
    /// assert_eq!(w.value(), 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(data: T, backward: impl Fn(Do<T::Delta>) -> SideEffects + Send + Sync + 'static) -> Self {
        let backward = custom_backward::new(move |delta| {
            let delta = Layer::<T::Delta>::from_any(delta);
            backward(Do::from_fn(move || delta.extract()))
        });
        Tape { value: data.into_value(), source: BackwardSource::Custom(backward), types: PhantomData }
    }

    pub(crate) fn of_layer(value: Value, layer: NodeRef) -> Self {
        Tape { value, source: BackwardSource::Layer(layer, PassRef::here()), types: PhantomData }
    }

    /// The forward value.
    pub fn data(&self) -> &T {
        self.value.get()
    }

    /// The gradients of the weights, as deferred deltas. Nothing is computed and nothing is
    /// changed.
    ///
    /// `delta` is run at most once, and only if a weight depends on it. If its shape differs from
    /// that of the value, evaluating the gradients fails with a shape error.
    #[track_caller]
    pub fn backward(&self, delta: Do<T::Delta>) -> SideEffects {
        let delta = Layer::from(delta).into_any();
        match &self.source {
            BackwardSource::Layer(layer, holder) => match holder.pass() {
                Some(pass) => {
                    let delta = checked(layer, &delta, None);
                    reverse::side_effects(&pass, layer, AnyDelta::Lazy(delta), When::Asked)
                        .unwrap_or_else(SideEffects::failed)
                }
                None => SideEffects::failed(Error::cancelled()),
            },
            BackwardSource::Custom(backward) => custom_backward::call(backward, delta),
        }
    }

    /// The gradients of the weights, as by [`backward`](Tape::backward), and the derivatives with
    /// respect to `to`: a layer, or a tuple, array or `Vec` of layers. Both come from one walk back,
    /// and what they share is computed once, in the pass of the tape.
    ///
    /// A derivative is zero where the value does not depend on the layer. Inside the pass of the
    /// tape the derivatives can be differentiated again. Elsewhere they are constants.
    ///
    /// ```
    /// use dl_core::{Differentiable, Do, Layer, Weight};
    /// use dl_optim::Sgd;
    /// // a function that is evaluated in one place, and its delta computed in another
    /// let (w, x) = (Weight::new(3.0_f64), Layer::constant(2.0_f64));
    /// let tape = (&w * &x).forward().wait()?;
    /// let (effects, dx) = tape.pull(Do::now(10.0), &x);
    /// assert_eq!(dx.predict().wait()?, 30.0);
    /// effects.step(&Sgd::new(0.1)).wait()?;
    /// assert_eq!(w.value(), 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Gradients and derivatives fail as those of `backward` do, and if a hand-written backward,
    /// which hands derivatives to weights only, is between the value and `to`.
    #[track_caller]
    pub fn pull<V: Variables + ?Sized>(&self, delta: Do<T::Delta>, to: &V) -> (SideEffects, V::Gradients) {
        let place = Location::caller();
        let (delta, targets) = (Layer::from(delta).into_any(), layers_of(to));
        let (all, tape) = match &self.source {
            BackwardSource::Layer(layer, holder) => {
                let pull = |pass: Owner| reverse::pull(&pass, (layer.clone(), checked(layer, &delta, None)), &targets);
                (holder.pass().ok_or_else(Error::cancelled).and_then(pull), Some(holder.clone()))
            }
            BackwardSource::Custom(_) if targets.iter().any(|target| target.variable().is_none()) => {
                (Err(Error::invalid(reverse::FOR_WEIGHTS_ONLY)), None)
            }
            BackwardSource::Custom(backward) => (Ok((custom_backward::call(backward, delta), targets)), None),
        };
        let effects = all.as_ref().map_or_else(|error| SideEffects::failed(error.clone()), |(all, _)| all.of_trained());
        let derivatives = &pulled(place, self.value.clone(), all, tape);
        (effects, to.map(&mut EachVariable { derivatives, variables: &mut Vec::new(), place }))
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        match self.source {
            BackwardSource::Layer(layer, _) => Outcome::Layer(layer),
            BackwardSource::Custom(backward) => Outcome::Tape(self.value, Some(backward)),
        }
    }
}

impl<T: Data + fmt::Debug, Delta> fmt::Debug for Tape<T, Delta> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape").field("data", self.value.get::<T>()).finish_non_exhaustive()
    }
}
