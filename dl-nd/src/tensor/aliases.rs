//! Short names for tensor layers and weights.

use super::{Element, Nd, Rank};
use dl_core::{Differentiable, Layer, Weight};
use ndarray::Ix2;

/// A layer with a tensor value; without type parameters, a matrix of `f32`.
///
/// ```
/// use dl_nd::{NdLayer, ReduceOps};
/// use ndarray::Ix1;
/// fn totals(matrix: &NdLayer) -> NdLayer<Ix1> {
///     matrix.sum_axis(1)
/// }
/// ```
pub type NdLayer<D = Ix2, A = f32> = Layer<Nd<A, D>>;

/// A trainable tensor; without type parameters, a matrix of `f32`.
///
/// ```
/// use dl_core::Weight;
/// let w: dl_nd::NdWeight = Weight::new([[1.0, 2.0], [3.0, 4.0]].into());
/// assert_eq!(w.value().shape(), [2, 2]);
/// ```
pub type NdWeight<D = Ix2, A = f32> = Weight<Nd<A, D>>;

/// Any expression with a tensor value: an [`Nd`], an [`NdWeight`], an [`NdLayer`], or another
/// implementor of [`Differentiable`].
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, NdExpression, NdLayer};
/// fn twice(x: impl NdExpression) -> NdLayer {
///     x.layer() * 2.0
/// }
/// assert_eq!(twice(Nd::from([[1.0]])).predict().wait()?, Nd::from([[2.0]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// Numbers, and tensors of another rank or element type, do not implement it:
///
/// ```compile_fail
/// # use dl_nd::{Nd, NdExpression};
/// fn twice(x: impl NdExpression) {}
/// twice(Nd::from([1.0_f32]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor expression with elements of type `{A}` and rank `{D}`",
    note = "tensors (`Nd`), their weights (`NdWeight`) and layers (`NdLayer`) are, with the right element type and rank"
)]
pub trait NdExpression<D: Rank = Ix2, A: Element = f32>: Differentiable<Data = Nd<A, D>, Delta = Nd<A, D>> {}

impl<X, D: Rank, A: Element> NdExpression<D, A> for X where X: Differentiable<Data = Nd<A, D>, Delta = Nd<A, D>> {}
