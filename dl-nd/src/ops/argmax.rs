//! Indices of the largest and the smallest elements.

use crate::ops::axes::axis_of;
use crate::ops::sort::argsort;
use crate::tensor::{Item, Nd, Rank};
use dl_core::{At, BuiltIn, Differentiable, Error, Layer, Primitive, Result};
use ndarray::{Axis, RemoveAxis};
use std::marker::PhantomData;

/// Indices of the largest and the smallest elements. No gradient flows through them.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{ExtremeOps, Nd};
/// let scores = Nd::from([[0.1, 0.9], [0.8, 0.2]]);
/// assert_eq!(scores.argmax(1).predict().wait()?, Nd::from([1_usize, 0]));
/// # dl_core::Result::Ok(())
/// ```
pub trait ExtremeOps<A: Item + PartialOrd, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// Indices of the largest elements along an axis, which is removed: `[batch, classes]` gives
    /// `[batch]` for axis 1. A NaN counts as largest. Of several candidates the first one is taken.
    /// `x.flatten().argmax(0)` gives the index among all elements.
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
        Layer::apply_built_in(ArgExtreme { largest: true, axis, keep: false, types: PhantomData }, (self.layer(),))
    }

    /// [`argmax`](ExtremeOps::argmax) with the axis kept at length 1, as
    /// [`gather`](crate::IndexOps::gather) requires.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ExtremeOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 0.0, 3.0]]).argmax_keepdim(1).predict().wait()?, Nd::from([[2_usize]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`argmax`](ExtremeOps::argmax).
    #[track_caller]
    fn argmax_keepdim(&self, axis: isize) -> Layer<Nd<usize, D>> {
        Layer::apply_built_in(ArgExtreme { largest: true, axis, keep: true, types: PhantomData }, (self.layer(),))
    }

    /// Indices of the smallest elements along an axis, which is removed. A NaN counts as smallest.
    /// Of several candidates the first one is taken.
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
        Layer::apply_built_in(ArgExtreme { largest: false, axis, keep: false, types: PhantomData }, (self.layer(),))
    }

    /// [`argmin`](ExtremeOps::argmin) with the axis kept at length 1, as
    /// [`gather`](crate::IndexOps::gather) requires.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ExtremeOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 0.0, 3.0]]).argmin_keepdim(1).predict().wait()?, Nd::from([[1_usize]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`argmin`](ExtremeOps::argmin).
    #[track_caller]
    fn argmin_keepdim(&self, axis: isize) -> Layer<Nd<usize, D>> {
        Layer::apply_built_in(ArgExtreme { largest: false, axis, keep: true, types: PhantomData }, (self.layer(),))
    }

    /// The indices that sort the elements along an axis. The order is stable. A NaN counts as
    /// largest. For the sorted elements, see [`sort`](crate::SortOps::sort).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ExtremeOps, Nd};
    /// assert_eq!(Nd::from([7, 5, 6]).argsort(0, false).predict().wait()?, Nd::from([1_usize, 2, 0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn argsort(&self, axis: isize, descending: bool) -> Layer<Nd<usize, D>> {
        argsort(self.layer(), axis, descending)
    }
}

impl<X, A: Item + PartialOrd, D: Rank> ExtremeOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[derive(Clone)]
struct ArgExtreme<A, D, E> {
    largest: bool,
    axis: isize,
    /// Whether the axis is kept, with length 1.
    keep: bool,
    types: PhantomData<(A, D, E)>,
}

impl<A: Item + PartialOrd, D: Rank, E: Rank> Primitive for ArgExtreme<A, D, E> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<usize, E>;

    fn name(&self) -> &'static str {
        match (self.largest, self.keep) {
            (true, false) => "argmax",
            (true, true) => "argmax_keepdim",
            (false, false) => "argmin",
            (false, true) => "argmin_keepdim",
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<usize, E>> {
        let axis = axis_of(self.axis, x.shape())?;
        if x.shape()[axis] == 0 {
            return Err(Error::shape(format!("axis {axis} of a tensor of shape {:?} has no elements", x.shape())));
        }
        // only NaN is not comparable to itself
        let nan = |x: &A| x.partial_cmp(x).is_none();
        let beats = |x: &A, best: &A| (if self.largest { x > best } else { x < best }) || (nan(x) && !nan(best));
        let index_of_best = |lane: ndarray::ArrayView1<'_, A>| {
            (1..lane.len()).fold(0, |best, i| if beats(&lane[i], &lane[best]) { i } else { best })
        };
        let indices = x.0.view().into_dyn().map_axis(Axis(axis), index_of_best);
        let indices = if self.keep { indices.insert_axis(Axis(axis)) } else { indices };
        Ok(indices.into_dimensionality().expect("the rank of the output").into())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A::Derivative, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

impl<A: Item + PartialOrd, D: Rank, E: Rank> BuiltIn for ArgExtreme<A, D, E> {}
