//! The cosine of the angle between vectors.

use crate::ops::axes::AxisList;
use crate::ops::reduce::{ReduceForm, ReduceOp, reduce};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Binary, Differentiable, Layer, Pointwise};
use ndarray::RemoveAxis;

/// The cosines of the angles between vectors along an axis, which is removed:
/// `Σ a·b / (max(‖a‖, eps) · max(‖b‖, eps))` with an `eps` of 1e-8. `a` and `b` broadcast. PyTorch's
/// `cosine_similarity`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, cosine_similarity};
/// let (a, b) = (Nd::from([[3.0, 4.0], [1.0, 0.0]]), Nd::from([[3.0, 4.0], [0.0, 2.0]]));
/// assert_eq!(cosine_similarity(&a, &b, 1).predict().wait()?, Nd::from([1.0, 0.0]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When there is no such axis, or the shapes do not broadcast.
#[track_caller]
pub fn cosine_similarity<A, D>(
    a: impl Differentiable<Data = Nd<A, D>>,
    b: impl Differentiable<Data = Nd<A, D>>,
    axis: isize,
) -> Layer<Nd<A, D::Smaller>>
where
    A: Element,
    D: Rank + RemoveAxis,
    D::Smaller: Rank,
{
    const NAME: &str = "cosine_similarity";
    let [a, b] = [a.into_layer(), b.into_layer()].map(|x| {
        let length = reduce(x.clone(), ReduceOp::Norm, AxisList::one(axis), ReduceForm::of(NAME, true));
        let length = Nd::with_number(Binary::Max, &length, 1e-8, false);
        Nd::binary(Binary::Div, &x, &length)
    });
    reduce(Nd::binary(Binary::Mul, &a, &b), ReduceOp::Sum, AxisList::one(axis), ReduceForm::of(NAME, false))
}
