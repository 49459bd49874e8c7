//! Sorting along an axis, the largest elements, and extrema with their indices.

use crate::kernels::for_each_lane_pair;
use crate::ops::argmax::ExtremeOps;
use crate::ops::axes::axis_of;
use crate::ops::index::gather;
use crate::ops::reshape::MovementOps;
use crate::tensor::{Element, Item, Nd, Rank, check_size, filled_array};
use dl_core::{At, BuiltIn, DType, Differentiable, Error, Layer, Primitive, Result};
use ndarray::RemoveAxis;
use std::marker::PhantomData;

/// Selected elements, and their indices along the axis.
///
/// ```
/// use dl_nd::{Nd, SortOps, WithIndices, ndarray::Ix1};
/// let (largest, indices): WithIndices<f32, Ix1> = Nd::from([3.0, 1.0]).topk(0, 1);
/// ```
pub type WithIndices<A, D> = (Layer<Nd<A, D>>, Layer<Nd<usize, D>>);

/// Elements along an axis in the order of their size, with the indices that they came from. The
/// gradient of an element flows to the element that it is a copy of. The order is stable, and NaN
/// counts as largest, as in NumPy and PyTorch.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, SortOps};
/// let (sorted, indices) = Nd::from([3.0, 1.0, 2.0]).sort(0, false);
/// assert_eq!(sorted.predict().wait()?, Nd::from([1.0, 2.0, 3.0]));
/// assert_eq!(indices.predict().wait()?, Nd::from([1, 2, 0]));
/// # dl_core::Result::Ok(())
/// ```
pub trait SortOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The sorted elements along an axis, and their indices ([`argsort`](ExtremeOps::argsort)).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SortOps};
    /// assert_eq!(Nd::from([[1.0, 3.0, 2.0]]).sort(-1, true).0.predict().wait()?, Nd::from([[3.0, 2.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn sort(&self, axis: isize, descending: bool) -> WithIndices<A, D> {
        with_values(axis, self.layer(), self.argsort(axis, descending))
    }

    /// The `k` largest elements along an axis, from the largest on, and their indices.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SortOps};
    /// let (best, indices) = Nd::from([0.1, 0.5, 0.4]).topk(0, 2);
    /// assert_eq!(best.predict().wait()?, Nd::from([0.5, 0.4]));
    /// assert_eq!(indices.predict().wait()?, Nd::from([1, 2]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or it has fewer than `k` elements.
    #[track_caller]
    fn topk(&self, axis: isize, k: usize) -> WithIndices<A, D> {
        let op = ArgSort { name: "topk", axis, descending: true, count: Some(k), types: PhantomData };
        with_values(axis, self.layer(), Layer::apply_built_in(op, (self.layer(),)))
    }

    /// The largest elements along an axis, which is removed, and their indices
    /// ([`argmax`](ExtremeOps::argmax)). In contrast to [`amax_axis`](crate::ReduceOps::amax_axis),
    /// the gradient flows to the first of equal elements only. PyTorch's `max(dim)`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SortOps};
    /// let (largest, indices) = Nd::from([[1.0, 3.0], [4.0, 2.0]]).max_with_indices(1);
    /// assert_eq!(largest.predict().wait()?, Nd::from([3.0, 4.0]));
    /// assert_eq!(indices.predict().wait()?, Nd::from([1, 0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn max_with_indices(&self, axis: isize) -> WithIndices<A, D::Smaller>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        let (largest, indices) = with_values(axis, self.layer(), self.argmax_keepdim(axis));
        (largest.squeeze(axis), indices.squeeze(axis))
    }

    /// The smallest elements along an axis, which is removed, and their indices. See
    /// [`max_with_indices`](SortOps::max_with_indices).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SortOps};
    /// let (smallest, _) = Nd::from([[1.0, 3.0], [4.0, 2.0]]).min_with_indices(1);
    /// assert_eq!(smallest.predict().wait()?, Nd::from([1.0, 2.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn min_with_indices(&self, axis: isize) -> WithIndices<A, D::Smaller>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        let (smallest, indices) = with_values(axis, self.layer(), self.argmin_keepdim(axis));
        (smallest.squeeze(axis), indices.squeeze(axis))
    }
}

impl<X, A: Element, D: Rank> SortOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
fn with_values<A: Element, D: Rank>(
    axis: isize,
    x: Layer<Nd<A, D>>,
    indices: Layer<Nd<usize, D>>,
) -> WithIndices<A, D> {
    (gather(axis, x, indices.clone()), indices)
}

/// The indices that sort the elements along an axis.
#[track_caller]
pub(crate) fn argsort<A: Item + PartialOrd, D: Rank>(
    x: Layer<Nd<A, D>>,
    axis: isize,
    descending: bool,
) -> Layer<Nd<usize, D>> {
    Layer::apply_built_in(ArgSort { name: "argsort", axis, descending, count: None, types: PhantomData }, (x,))
}

#[derive(Clone)]
struct ArgSort<A, D> {
    name: &'static str,
    axis: isize,
    descending: bool,
    /// The number of indices, by default one for each element.
    count: Option<usize>,
    types: PhantomData<(A, D)>,
}

/// Writes the indices that belong to the first keys.
fn write_first<K: Copy + Ord>(mut keys: Vec<K>, index: impl Fn(K) -> u64, to: &mut [usize]) {
    if (1..keys.len()).contains(&to.len()) {
        keys.select_nth_unstable(to.len() - 1);
        keys.truncate(to.len());
    }
    keys.sort_unstable();
    to.iter_mut().zip(keys).for_each(|(to, key)| *to = index(key) as usize);
}

impl<A: Item + PartialOrd, D: Rank> Primitive for ArgSort<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<usize, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<usize, D>> {
        let axis = axis_of(self.axis, x.shape())?;
        let (length, mut shape) = (x.shape()[axis], x.dim());
        let count = self.count.unwrap_or(length);
        if count > length {
            let shape = x.shape();
            return Err(Error::invalid(format!("the {count} largest elements along axis {axis} of {shape:?}")));
        }
        shape[axis] = count;
        check_size::<usize>(shape.slice())?;
        let is_there = matches!(A::ON_DEVICE, Some(DType::F32 | DType::F64));
        if is_there && let Some(view) = x.0.on_device()? {
            return view.argsort(axis, count, self.descending).map(Nd::from_view);
        }
        let mut sorted = filled_array(shape, 0);
        let nanoseconds = 5.0 * (length as f64 + 1.0).log2();
        for_each_lane_pair(x.view(), &mut sorted, axis, nanoseconds, |x, to| {
            // keys of four bytes share a word with the indices
            let flip = if self.descending { u64::MAX } else { 0 };
            let keys = x.iter().map(|x| x.order_key() ^ flip).zip(0_u64..);
            if size_of::<A>() <= 4 && length <= u32::MAX as usize {
                write_first(keys.map(|(key, i)| key << 32 | i).collect(), |key: u64| key & 0xffff_ffff, to);
            } else {
                write_first(keys.map(|(key, i)| u128::from(key) << 64 | u128::from(i)).collect(), |key| key as u64, to);
            }
        });
        Ok(sorted.into())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A::Derivative, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        let length = axis_of(self.axis, x.shape()).map_or(1, |axis| x.shape()[axis]);
        200.0 + 5.0 * x.len() as f64 * (length as f64 + 1.0).log2()
    }
}

impl<A: Item + PartialOrd, D: Rank> BuiltIn for ArgSort<A, D> {}
