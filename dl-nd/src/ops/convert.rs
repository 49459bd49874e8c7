//! Conversions between element types.

use crate::kernels::map_elements;
use crate::tensor::{Discrete, Element, Nd, Rank};
use dl_core::{Along, At, BuiltIn, Differentiable, Layer, Nothing, Primitive, Result};
use std::marker::PhantomData;

/// Conversion between single and double precision.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{CastOps, Nd};
/// assert_eq!(Nd::from([0.5_f32]).cast::<f64>().predict().wait()?, Nd::from([0.5_f64]));
/// # dl_core::Result::Ok(())
/// ```
pub trait CastOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// Converts the elements to another precision. The delta is converted back.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight}; use dl_optim::Sgd; use dl_nd::{CastOps, Nd};
    /// let w = Weight::new(Nd::from([1.0_f32]));
    /// w.cast::<f64>().train(&Sgd::new(0.5)).wait()?;
    /// assert_eq!(w.value(), Nd::from([0.5]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn cast<B: Element>(&self) -> Layer<Nd<B, D>> {
        cast(&self.layer())
    }
}

impl<X, A: Element, D: Rank> CastOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
fn cast<A: Element, B: Element, D: Rank>(x: &Layer<Nd<A, D>>) -> Layer<Nd<B, D>> {
    Layer::apply_built_in(Cast(PhantomData), (x.clone(),))
}

#[derive(Clone)]
struct Cast<A, B, D>(PhantomData<(A, B, D)>);

impl<A: Element, B: Element, D: Rank> Primitive for Cast<A, B, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<B, D>;

    fn name(&self) -> &'static str {
        "cast"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<B, D>> {
        if let Some(view) = x.0.on_device()? {
            return view.cast(B::ELEMENT).map(Nd::from_view);
        }
        Ok(map_elements(
            x.0.view(),
            #[inline(always)]
            |x| B::from(x).expect("floating point numbers convert"),
        )
        .into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(cast(at.delta)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<B, D>>> {
        Some(cast(along.tangents.0.as_ref()?))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

impl<A: Element, B: Element, D: Rank> BuiltIn for Cast<A, B, D> {}

/// Conversion of masks, labels and indices to floating point numbers.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{CompareOps, DiscreteOps, Nd, ReduceOps};
/// let (predicted, labels) = (Nd::from([3_usize, 1, 2, 2]), Nd::from([3, 1, 2, 0]));
/// let accuracy = predicted.equal(labels).to_floats::<f64>().mean();
/// assert_eq!(accuracy.predict().wait()?, 0.75);
/// # dl_core::Result::Ok(())
/// ```
pub trait DiscreteOps<A: Discrete, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// Converts each element to a floating point number; `true` is 1 and `false` is 0. No gradient
    /// flows through it.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{DiscreteOps, Nd};
    /// assert_eq!(Nd::from([true, false]).to_floats::<f32>().predict().wait()?, Nd::from([1.0, 0.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn to_floats<B: Element>(&self) -> Layer<Nd<B, D>> {
        Layer::apply_built_in(ToFloats(PhantomData), (self.layer(),))
    }
}

impl<X, A: Discrete, D: Rank> DiscreteOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[derive(Clone)]
struct ToFloats<A, B, D>(PhantomData<(A, B, D)>);

impl<A: Discrete, B: Element, D: Rank> Primitive for ToFloats<A, B, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<B, D>;

    fn name(&self) -> &'static str {
        "to_floats"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<B, D>> {
        if let Some(view) = x.0.on_device()? {
            return view.cast(B::ELEMENT).map(Nd::from_view);
        }
        Ok(map_elements(
            x.0.view(),
            #[inline(always)]
            |x| B::of(x.to_f64()),
        )
        .into())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<Nothing, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

impl<A: Discrete, B: Element, D: Rank> BuiltIn for ToFloats<A, B, D> {}
