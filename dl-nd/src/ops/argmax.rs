//! Indices of the largest and the smallest elements.

use crate::device::ScanOp;
use crate::kernels::for_each_lane_pair;
use crate::ops::axes::axis_of;
use crate::ops::sort::argsort;
use crate::tensor::{Item, Nd, Rank};
use dl_core::simd::vectorized;
use dl_core::{At, BuiltIn, DType, Differentiable, Error, Layer, Primitive, Result};
use ndarray::{Array, Axis, RemoveAxis};
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
        let is_there = matches!(A::ON_DEVICE, Some(DType::F32 | DType::F64));
        if is_there && let Some(view) = x.0.on_device()? {
            let indices = view.scan(ScanOp::Extreme { largest: self.largest }, None, axis, false)?;
            return Ok(Nd::from_view(if self.keep { indices } else { indices.without(axis) }));
        }
        let mut shape = x.dim();
        shape[axis] = 1;
        let mut indices = Array::from_elem(shape, 0);
        for_each_lane_pair(x.0.view(), &mut indices, axis, 0.5, |x, index| index[0] = first_extreme(x, self.largest));
        let indices = indices.into_dyn();
        let indices = if self.keep { indices } else { indices.index_axis_move(Axis(axis), 0) };
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

/// Whether an element is a NaN and the other is none, or else is more extreme.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself, in any type of elements")]
fn beats<A: Item + PartialOrd>(x: A, best: A, largest: bool) -> bool {
    (if largest { x > best } else { x < best }) | ((x != x) & (best == best))
}

/// The index of the first element that no other beats.
fn first_extreme<A: Item + PartialOrd>(x: &[A], largest: bool) -> usize {
    const LANES: usize = 32;
    vectorized(
        #[inline(always)]
        || {
            let (rows, rest) = x.as_chunks::<LANES>();
            let mut extremes = [x[0]; LANES];
            for row in rows {
                for i in 0..LANES {
                    extremes[i] = if beats(row[i], extremes[i], largest) { row[i] } else { extremes[i] };
                }
            }
            let mut best = x[0];
            for &x in extremes.iter().chain(rest) {
                best = if beats(x, best, largest) { x } else { best };
            }
            // the first row that has it
            let mut start = 0;
            for row in rows {
                let mut all_below = true;
                for &x in row {
                    all_below &= beats(best, x, largest);
                }
                if !all_below {
                    break;
                }
                start += LANES;
            }
            start + x[start..].iter().take_while(|&&x| beats(best, x, largest)).count()
        },
    )
}
