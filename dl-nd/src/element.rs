//! What tensors are made of: their elements and their ranks.

use dl_core::{Chunk, Data, Number, Pointwise, Trainable};
use ndarray::{Dimension, Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn};

/// The elements of a tensor: `f32` and `f64`.
///
/// ```
/// fn zero<A: dl_nd::Element>() -> A {
///     A::of(0.0)
/// }
/// assert_eq!(zero::<f32>(), 0.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the element of a differentiable tensor",
    note = "the elements are `f32` or `f64`"
)]
pub trait Element: Number + Data<Delta = Self> + Pointwise + Trainable {
    /// A run of elements, as optimizers see it.
    #[doc(hidden)]
    fn chunk<'a>(values: &'a mut [Self], deltas: &'a [Self], slots: &'a mut [&'a mut [Self]]) -> Chunk<'a>;
}

impl Element for f32 {
    fn chunk<'a>(values: &'a mut [f32], deltas: &'a [f32], slots: &'a mut [&'a mut [f32]]) -> Chunk<'a> {
        Chunk::F32 { values, deltas, slots }
    }
}

impl Element for f64 {
    fn chunk<'a>(values: &'a mut [f64], deltas: &'a [f64], slots: &'a mut [&'a mut [f64]]) -> Chunk<'a> {
        Chunk::F64 { values, deltas, slots }
    }
}

/// The rank of a tensor, in its type: `Ix0` to `Ix6`, or `IxDyn` for a rank that is known only when it runs.
///
/// ```
/// fn axes<D: dl_nd::Rank>() -> Option<usize> {
///     D::NDIM
/// }
/// assert_eq!(axes::<ndarray::Ix2>(), Some(2));
/// assert_eq!(axes::<ndarray::IxDyn>(), None);
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not the rank of a tensor: those are `Ix0` to `Ix6` and `IxDyn`")]
pub trait Rank: Dimension + 'static {}

impl<D: Dimension + 'static> Rank for D {}

/// Ranks that may be `N`: the rank of `N` axes, and `IxDyn`, which is looked at when it runs.
///
/// ```
/// use dl_core::Layer;
/// use dl_nd::{Element, HasRank, Nd, NdOps};
/// fn loss<A: Element, D: HasRank<2>>(logits: &Layer<Nd<A, D>>) -> Layer<A> {
///     logits.cross_entropy([0])
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a tensor with {N} axes is wanted here, but the rank is `{Self}`",
    note = "`unsqueeze` adds an axis of length 1, `reshape` gives another shape"
)]
pub trait HasRank<const N: usize>: Rank {}

macro_rules! ranks {
    ($($N:literal $D:ty),*) => {$(
        impl HasRank<$N> for $D {}
        impl HasRank<$N> for IxDyn {}
    )*};
}

ranks!(0 Ix0, 1 Ix1, 2 Ix2, 3 Ix3, 4 Ix4, 5 Ix5, 6 Ix6);
