//! Where the largest and the smallest elements are.

use crate::axes::axis_of;
use crate::element::{Item, Rank};
use crate::nd::Nd;
use dl_core::{At, Differentiable, Error, Layer, Primitive, Result};
use ndarray::{Axis, RemoveAxis};
use std::marker::PhantomData;

/// Where the largest and the smallest elements are. No gradient flows through it.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{ExtremeOps, Nd};
/// let scores = Nd::from([[0.1, 0.9], [0.8, 0.2]]);
/// assert_eq!(scores.argmax(1).predict().wait()?, Nd::from([1_usize, 0]));
/// # dl_core::Result::Ok(())
/// ```
pub trait ExtremeOps<A: Item + PartialOrd, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The places of the largest elements along an axis: of the first NaN if there is one, else of the first of equals.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ExtremeOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 3.0, 3.0]]).argmax(-1).predict().wait()?, Nd::from([1_usize]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn argmax(&self, axis: isize) -> Layer<Nd<usize, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        Layer::apply(Extreme { largest: true, axis, types: PhantomData }, (self.layer(),))
    }

    /// The places of the smallest elements along an axis: of the first NaN if there is one, else of the first of equals.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ExtremeOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 0.0, 3.0]]).argmin(-1).predict().wait()?, Nd::from([1_usize]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn argmin(&self, axis: isize) -> Layer<Nd<usize, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        Layer::apply(Extreme { largest: false, axis, types: PhantomData }, (self.layer(),))
    }
}

impl<X, A: Item + PartialOrd, D: Rank> ExtremeOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

struct Extreme<A, D> {
    largest: bool,
    axis: isize,
    types: PhantomData<(A, D)>,
}

impl<A: Item + PartialOrd, D: Rank + RemoveAxis> Primitive for Extreme<A, D>
where
    D::Smaller: Rank,
{
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<usize, D::Smaller>;

    fn name(&self) -> &'static str {
        if self.largest { "argmax" } else { "argmin" }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<usize, D::Smaller>> {
        let axis = axis_of(self.axis, x.shape())?;
        if x.shape()[axis] == 0 {
            return Err(Error::shape(format!("axis {axis} of a tensor of shape {:?} has no elements", x.shape())));
        }
        // only NaN differs from itself
        let nan = |x: &A| x.partial_cmp(x).is_none();
        let beats = |x: &A, best: &A| (if self.largest { x > best } else { x < best }) || (nan(x) && !nan(best));
        let place = |lane: ndarray::ArrayView1<'_, A>| {
            (1..lane.len()).fold(0, |best, i| if beats(&lane[i], &lane[best]) { i } else { best })
        };
        Ok(x.0.map_axis(Axis(axis), place).into())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A::Derivative, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}
