//! The operations of tensors, as methods of everything whose value is a tensor.

use crate::element::{Element, HasRank, Rank};
use crate::loss::{self, Labels};
use crate::matmul::{self, MatMul};
use crate::movement::{self, Target};
use crate::nd::Nd;
use crate::reduce::{self, Along};
use crate::select::{self, Picked};
use crate::softmax;
use dl_core::{Differentiable, Layer};
use ndarray::{IntoDimension, IxDyn, RemoveAxis};
use std::ops::Range;
use std::sync::Arc;

/// The operations of tensors, on layers, weights and plain values alike, owned or borrowed.
///
/// None of them computes anything: they build layers. What does not fit (shapes, axes, labels) is an error of the `predict` or
/// `train` that evaluates the layer; it names the operation and the line that called it.
///
/// The pointwise operations (`relu`, `tanh`, `exp`, …) are methods of [`Layer`] and [`Weight`](dl_core::Weight) themselves.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, NdOps};
/// let a = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
/// let mean_of_product = a.matmul(a.t()).mean();
/// assert_eq!(mean_of_product.predict().wait()?, 13.0_f32);
/// # dl_core::Result::Ok(())
/// ```
pub trait NdOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The product of matrices and vectors: `[m, k] · [k, n] → [m, n]`, `[m, k] · [k] → [m]`, `[k] · [k, n] → [n]`,
    /// `[k] · [k] → []`. See [`MatMul`].
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// let a = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.matmul(Nd::from([1.0, 1.0])).predict().wait()?, Nd::from([3.0, 7.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the inner lengths differ.
    #[track_caller]
    fn matmul<R, E>(&self, right: R) -> Layer<Nd<A, D::Product>>
    where
        R: Differentiable<Data = Nd<A, E>>,
        E: Rank,
        D: MatMul<E>,
    {
        matmul::matmul(self.layer(), right.into_layer())
    }

    /// The sum of all elements, a number.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).sum().predict().wait()?, 10.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn sum(&self) -> Layer<A> {
        reduce::total(self.layer(), false)
    }

    /// The mean of all elements, a number.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).mean().predict().wait()?, 2.5);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when there are no elements.
    #[track_caller]
    fn mean(&self) -> Layer<A> {
        reduce::total(self.layer(), true)
    }

    /// The sums over one axis, which disappears.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).sum_axis(0).predict().wait()?, Nd::from([4.0, 6.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn sum_axis(&self, axis: usize) -> Layer<Nd<A, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        reduce::along(self.layer(), axis, Along::Sum, false).remove_axis(axis)
    }

    /// The sums over one axis, which stays, with length 1.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).sum_keepdim(1).predict().wait()?, Nd::from([[3.0], [7.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn sum_keepdim(&self, axis: usize) -> Layer<Nd<A, D>> {
        reduce::along(self.layer(), axis, Along::Sum, true)
    }

    /// The means over one axis, which disappears.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).mean_axis(0).predict().wait()?, Nd::from([2.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn mean_axis(&self, axis: usize) -> Layer<Nd<A, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        reduce::along(self.layer(), axis, Along::Mean, false).remove_axis(axis)
    }

    /// The means over one axis, which stays, with length 1.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).mean_keepdim(1).predict().wait()?, Nd::from([[1.5], [3.5]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn mean_keepdim(&self, axis: usize) -> Layer<Nd<A, D>> {
        reduce::along(self.layer(), axis, Along::Mean, true)
    }

    /// The maxima over one axis, which disappears. Equal ones share the gradient.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 5.0], [3.0, 4.0]]).max_axis(0).predict().wait()?, Nd::from([3.0, 5.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn max_axis(&self, axis: usize) -> Layer<Nd<A, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        reduce::along(self.layer(), axis, Along::Max, false).remove_axis(axis)
    }

    /// The maxima over one axis, which stays, with length 1. Equal ones share the gradient.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 5.0], [3.0, 4.0]]).max_keepdim(1).predict().wait()?, Nd::from([[5.0], [4.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is 0.
    #[track_caller]
    fn max_keepdim(&self, axis: usize) -> Layer<Nd<A, D>> {
        reduce::along(self.layer(), axis, Along::Max, true)
    }

    /// The same elements, in row-major order, in another shape.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).reshape(4).predict().wait()?, Nd::from([1.0, 2.0, 3.0, 4.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the new shape has more or fewer elements.
    #[track_caller]
    fn reshape<S>(&self, shape: S) -> Layer<Nd<A, S::Dim>>
    where
        S: IntoDimension,
        S::Dim: Rank,
    {
        movement::reshape(&self.layer(), Target::Shape(shape.into_dimension()))
    }

    /// Transposed: the axes in reverse order.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0]]).t().predict().wait()?, Nd::from([[1.0], [2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn t(&self) -> Layer<Nd<A, D>> {
        movement::transpose(&self.layer())
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// let x = Nd::from([[[1.0, 2.0]]]).permute([2, 0, 1]);
    /// assert_eq!(x.predict().wait()?.shape(), [2, 1, 1]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `axes` does not name each axis once.
    #[track_caller]
    fn permute(&self, axes: impl IntoDimension<Dim = D>) -> Layer<Nd<A, D>> {
        movement::permute(&self.layer(), axes.into_dimension())
    }

    /// With a new axis of length 1 at this place.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([1.0, 2.0]).insert_axis(1).predict().wait()?, Nd::from([[1.0], [2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `axis` is above the number of axes.
    #[track_caller]
    fn insert_axis(&self, axis: usize) -> Layer<Nd<A, D::Larger>>
    where
        D::Larger: Rank,
    {
        movement::reshape(&self.layer(), Target::Insert(axis))
    }

    /// Without an axis of length 1.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0], [2.0]]).remove_axis(1).predict().wait()?, Nd::from([1.0, 2.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is not 1.
    #[track_caller]
    fn remove_axis(&self, axis: usize) -> Layer<Nd<A, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        movement::reshape(&self.layer(), Target::Remove(axis))
    }

    /// The same tensor, its rank left open.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0]]).to_dyn().predict().wait()?.shape(), [1, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn to_dyn(&self) -> Layer<Nd<A, IxDyn>> {
        movement::lift(&self.layer())
    }

    /// The same tensor, of a rank that was open before.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// let open = Nd::from([[1.0, 2.0]]).to_dyn();
    /// assert_eq!(open.to_rank::<ndarray::Ix2>().predict().wait()?, Nd::from([[1.0, 2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when it has another rank.
    #[track_caller]
    fn to_rank<E: Rank>(&self) -> Layer<Nd<A, E>> {
        movement::reshape(&self.layer(), Target::Rank)
    }

    /// Part `i` along the first axis, which disappears: a row of a matrix.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).row(1).predict().wait()?, Nd::from([3.0, 4.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such row.
    #[track_caller]
    fn row(&self, i: usize) -> Layer<Nd<A, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        select::select(self.layer(), 0, Picked::Range { range: i..i.saturating_add(1), row: true }).remove_axis(0)
    }

    /// The parts in a range along an axis.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([1.0, 2.0, 3.0]).slice_axis(0, 1..3).predict().wait()?, Nd::from([2.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or the range does not lie in it.
    #[track_caller]
    fn slice_axis(&self, axis: usize, range: Range<usize>) -> Layer<Nd<A, D>> {
        select::select(self.layer(), axis, Picked::Range { range, row: false })
    }

    /// The parts at these indices along an axis, in their order; an index may come more than once.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([1.0, 2.0, 3.0]).select(0, [2, 0, 2]).predict().wait()?, Nd::from([3.0, 1.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or an index is out of range.
    #[track_caller]
    fn select(&self, axis: usize, indices: impl Into<Arc<[usize]>>) -> Layer<Nd<A, D>> {
        select::select(self.layer(), axis, Picked::Indices(indices.into()))
    }

    /// One element, a number.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).at([1, 0]).predict().wait()?, 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such element.
    #[track_caller]
    fn at(&self, index: impl IntoDimension<Dim = D>) -> Layer<A> {
        select::element(self.layer(), index.into_dimension())
    }

    /// `exp(x) / Σ exp(x)` along an axis, without overflow.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1e4, 1e4]]).softmax(1).predict().wait()?, Nd::from([[0.5, 0.5]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn softmax(&self, axis: usize) -> Layer<Nd<A, D>> {
        softmax::softmax(self.layer(), axis)
    }

    /// The logarithm of [`softmax`](NdOps::softmax), without overflow.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// assert_eq!(Nd::from([[1e4, -1e4]]).log_softmax(1).predict().wait()?, Nd::from([[0.0, -2e4]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn log_softmax(&self, axis: usize) -> Layer<Nd<A, D>> {
        softmax::log_softmax(self.layer(), axis)
    }

    /// The mean over a batch of `−ln softmax(logits)[label]`: logits of shape `[batch, classes]`, one label for each row.
    /// This is PyTorch's `cross_entropy` with its default settings.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NdOps};
    /// let logits = Nd::from([[0.0_f64, 0.0], [0.0, 0.0]]);
    /// assert_eq!(logits.cross_entropy([0, 1]).predict().wait()?, 2.0_f64.ln());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there are more or fewer labels than rows, the batch is empty, or a label is not below the number of classes.
    #[track_caller]
    fn cross_entropy(&self, labels: impl Into<Labels>) -> Layer<A>
    where
        D: HasRank<2>,
    {
        loss::cross_entropy(self.layer(), labels.into())
    }
}

impl<X, A: Element, D: Rank> NdOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}
