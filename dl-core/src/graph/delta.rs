//! The trait of derivatives, [`Delta`].

use crate::api::primitive::{Along, At, Deltas, Primitive};
use crate::error::{Error, Result};
use crate::graph::data::Data;
use crate::graph::inline_box::Kept;
use crate::graph::layer::Layer;
use crate::graph::node::Expression;
use crate::graph::node_ref::AnyLayer;
use crate::graph::op::Applied;
use std::any::TypeId;
use std::marker::PhantomData;

/// A type of derivatives (*cotangents* and *tangents*): a vector space.
///
/// Deltas are lazy layers, so these methods build the sum and the multiple of deltas as layers;
/// they do not compute them.
///
/// ```
/// use dl_core::{Delta, Differentiable, Layer};
/// let sum = <f64 as Delta>::sum(vec![Layer::constant(1.0), Layer::constant(2.5)]);
/// assert_eq!(sum.predict().wait()?, 3.5);
/// assert_eq!(<f64 as Delta>::scale(&sum, 2.0).predict().wait()?, 7.0);
/// assert_eq!(3.0_f64.squared_norm(), 9.0);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a derivative",
    note = "derivatives are `f32`, `f64`, tensors of these, `Nothing` for data that have none, or a type of your own that implements `Delta`"
)]
pub trait Delta: Data<Delta = Self> {
    /// The sum of one or more layers, in their order.
    fn sum(terms: Vec<Layer<Self>>) -> Layer<Self>;

    /// The sum of zero or more layers, in their order. The sum of no layers is
    /// [`none`](Delta::none).
    #[doc(hidden)]
    #[track_caller]
    fn sum_of(terms: impl Iterator<Item = Layer<Self>>) -> Layer<Self> {
        let terms: Vec<Layer<Self>> = terms.collect();
        if terms.is_empty() { Self::none() } else { Self::sum(terms) }
    }

    /// Adds another delta in place, with the same bits as the value of their [`sum`](Delta::sum).
    /// Returns whether it did; if not, the value is unchanged.
    #[doc(hidden)]
    fn add_in_place(&mut self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// The sum of no layers: zero for scalars. Where the sum has no known shape, as for tensors, it
    /// is a layer that fails when it is evaluated.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer};
    /// let nothing: Layer<f64> = std::iter::empty::<Layer<f64>>().sum();
    /// assert_eq!(nothing.predict().wait()?, 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn none() -> Layer<Self> {
        Layer::dynamic(|| async { Err(Error::invalid("the sum of no layers has no shape")) })
    }

    /// `factor` times a layer.
    fn scale(layer: &Layer<Self>, factor: f64) -> Layer<Self>;

    /// The sum of the squares of its numbers.
    /// [`SideEffects::clip_norm`](crate::SideEffects::clip_norm) adds it up over the weights.
    fn squared_norm(&self) -> f64;
}

/// The derivative of data without a derivative: masks, labels, random seeds.
///
/// ```
/// use dl_core::{Data, Layer, Nothing};
/// #[derive(Clone)]
/// struct Name(String);
/// impl Data for Name {
///     type Delta = Nothing;
///     fn one(&self) -> Nothing {
///         Nothing
///     }
/// }
/// let name = Layer::constant(Name("left".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

impl Data for Nothing {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

impl Delta for Nothing {
    fn sum(mut terms: Vec<Layer<Nothing>>) -> Layer<Nothing> {
        terms.swap_remove(0)
    }

    #[track_caller]
    fn none() -> Layer<Nothing> {
        Layer::constant(Nothing)
    }

    fn scale(layer: &Layer<Nothing>, _: f64) -> Layer<Nothing> {
        layer.clone()
    }

    fn squared_norm(&self) -> f64 {
        0.0
    }
}

/// Returns a layer with this delta that checks at evaluation whether it belongs to the value. An
/// error has the source location of the delta.
pub(crate) fn checked<T: Data>(value: &AnyLayer, delta: &AnyLayer) -> AnyLayer {
    let scalar = [TypeId::of::<f32>(), TypeId::of::<f64>()].contains(&TypeId::of::<T>());
    if scalar {
        return delta.clone();
    }
    let operands = (Layer::from_any(value.clone()), Layer::from_any(delta.clone()));
    let applied = Applied::new(Checked::<T>(PhantomData), operands);
    AnyLayer::new::<T::Delta>(Expression::Primitive(Kept::operation(applied)), delta.place)
}

/// (value, delta) ↦ delta
struct Checked<T>(PhantomData<fn() -> T>);

impl<T: Data> Primitive for Checked<T> {
    type Operands = (Layer<T>, Layer<T::Delta>);
    type Output = T::Delta;
    const IS_BUILT_IN: bool = true;

    fn name(&self) -> &'static str {
        "derivative"
    }

    fn value(&self, (value, delta): (&T, &T::Delta)) -> Result<T::Delta> {
        value.check_delta(delta)?;
        Ok(delta.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (None, Some(at.delta.clone()))
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<T::Delta>> {
        along.tangents.1.clone()
    }

    fn cost(&self, _: (&T, &T::Delta)) -> f64 {
        50.0
    }
}
