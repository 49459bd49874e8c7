//! Reductions of the losses of single elements: mean, sum, mean over the batch, or none.

use crate::kernels::sum_all;
use crate::ops::broadcast::broadcast_to;
use crate::ops::reduce::{fill, total};
use crate::ops::reshape::reshape_to;
use crate::tensor::{Element, Nd, Rank, unit_shape};
use dl_core::{Along, At, Binary, BuiltIn, Data, Error, Layer, Primitive, Result};
use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// How a loss function reduces the losses of single elements: [`Mean`], [`Sum`], [`BatchMean`] or
/// [`Each`]. This is PyTorch's `reduction`.
///
/// The reduction determines the type of the loss: a number, or a tensor for [`Each`].
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Each, LossOps, Nd, Sum};
/// let (x, y) = (Nd::from([1.0, 2.0]), Nd::from([3.0, 5.0]));
/// assert_eq!(x.mse(&y).predict().wait()?, 6.5);
/// assert_eq!(x.mse_with(&y, Sum).predict().wait()?, 13.0);
/// assert_eq!(x.mse_with(&y, Each).predict().wait()?, Nd::from([4.0, 9.0]));
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reduction",
    note = "the reductions are `Mean`, `Sum`, `BatchMean` and `Each`"
)]
pub trait Reduction: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The type of the result for losses of rank `D`.
    type Of<A: Element, D: Rank>: Data<Delta = Self::Of<A, D>>;

    /// Whether the sum is divided by the number, or the total weight, of all losses.
    #[doc(hidden)]
    const MEAN: bool = false;

    /// Reduces losses. `from` is the shape of the loss function's input, for error messages.
    #[doc(hidden)]
    fn fold<A: Element, D: Rank>(losses: Nd<A, D>, from: &[usize]) -> Result<Self::Of<A, D>>;

    /// The delta of each loss. It broadcasts to `shape`, which has an element for each loss.
    #[doc(hidden)]
    fn unfold<A: Element, D: Rank, E: Rank>(delta: &Layer<Self::Of<A, D>>, shape: E) -> Layer<Nd<A, E>>;

    /// Reduces losses that are already multiplied by their weights. Only a mean uses the weights:
    /// it divides by their sum.
    #[doc(hidden)]
    #[track_caller]
    fn weighted<A: Element, D: Rank, E: Rank>(
        name: &'static str,
        losses: Layer<Nd<A, D>>,
        _weights: Layer<Nd<A, E>>,
    ) -> Layer<Self::Of<A, D>> {
        reduce::<A, D, Self>(name, losses)
    }
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $Name:ident: |$losses:ident, $shape:ident| $count:expr $(, { $($more:tt)* })?;)*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Name;

        impl sealed::Sealed for $Name {}

        impl Reduction for $Name {
            type Of<A: Element, D: Rank> = A;

            fn fold<A: Element, D: Rank>(losses: Nd<A, D>, from: &[usize]) -> Result<A> {
                let ($losses, $shape) = (losses.len(), losses.shape());
                let count: usize = $count;
                if count == 0 {
                    return Err(Error::shape(format!("the mean over an empty batch, of shape {from:?}")));
                }
                Ok(sum_all(losses.0.view().into_dyn()) / A::of(count as f64))
            }

            fn unfold<A: Element, D: Rank, E: Rank>(delta: &Layer<A>, shape: E) -> Layer<Nd<A, E>> {
                let ($losses, $shape) = (shape.size(), shape.slice());
                let count: usize = $count;
                if count == 1 {
                    return fill(delta, unit_shape());
                }
                fill(&A::with_number(Binary::Div, delta, count as f64, false), unit_shape())
            }

            $($($more)*)?
        }
    )*};
}

numbers! {
    /// The mean of the losses, a number; the default of every loss function. If the losses have
    /// weights (see [`CrossEntropy`](crate::CrossEntropy)), it is the weighted mean `Σ w·l / Σ w`. A
    /// total weight of 0 is an error.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{LossOps, Mean, Nd};
    /// assert_eq!(Nd::from([1.0, 2.0]).l1_with(Nd::from([2.0, 5.0]), Mean).predict().wait()?, 2.0);
    /// # dl_core::Result::Ok(())
    /// ```
    Mean: |losses, _shape| losses, {
        const MEAN: bool = true;

        #[track_caller]
        fn weighted<A: Element, D: Rank, E: Rank>(
            name: &'static str,
            losses: Layer<Nd<A, D>>,
            weights: Layer<Nd<A, E>>,
        ) -> Layer<A> {
            let all = Layer::apply_built_in(TotalWeight { name, element: PhantomData }, (total(weights),));
            A::binary(Binary::Div, &total(losses), &all)
        }
    };
    /// The sum of the losses, a number.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{LossOps, Nd, Sum};
    /// assert_eq!(Nd::from([1.0, 2.0]).l1_with(Nd::from([2.0, 5.0]), Sum).predict().wait()?, 4.0);
    /// # dl_core::Result::Ok(())
    /// ```
    Sum: |_losses, _shape| 1;
    /// The sum of the losses divided by the length of the first axis: the mean over a batch, a
    /// number. PyTorch's `batchmean`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{BatchMean, LossOps, Nd};
    /// let (x, y) = (Nd::from([[1.0, 2.0], [3.0, 4.0]]), Nd::from([[0.0; 2]; 2]));
    /// assert_eq!(x.l1_with(y, BatchMean).predict().wait()?, 5.0);
    /// # dl_core::Result::Ok(())
    /// ```
    BatchMean: |_losses, shape| shape.first().copied().unwrap_or(1);
}

/// The losses themselves, a tensor. PyTorch calls it `none`.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::{Each, LossOps, Nd};
/// assert_eq!(Nd::from([1.0, 2.0]).l1_with(Nd::from([2.0, 5.0]), Each).predict().wait()?, Nd::from([1.0, 3.0]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Each;

impl sealed::Sealed for Each {}

impl Reduction for Each {
    type Of<A: Element, D: Rank> = Nd<A, D>;

    fn fold<A: Element, D: Rank>(losses: Nd<A, D>, _: &[usize]) -> Result<Nd<A, D>> {
        Ok(losses)
    }

    fn unfold<A: Element, D: Rank, E: Rank>(delta: &Layer<Nd<A, D>>, shape: E) -> Layer<Nd<A, E>> {
        reshape_to(delta, shape)
    }
}

/// The divisor of a weighted mean. It must not be 0.
struct TotalWeight<A> {
    name: &'static str,
    element: PhantomData<A>,
}

impl<A: Element> Primitive for TotalWeight<A> {
    type Operands = (Layer<A>,);
    type Output = A;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (&total,): (&A,)) -> Result<A> {
        match total == A::zero() {
            true => Err(Error::invalid("the weights of the labels sum to 0: the mean is undefined")),
            false => Ok(total),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<A>>,) {
        (Some(at.delta.clone()),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<A>> {
        along.tangents.0.clone()
    }

    fn cost(&self, _: (&A,)) -> f64 {
        1.0
    }
}

impl<A: Element> BuiltIn for TotalWeight<A> {
    const IS_PURE: bool = true;
}

/// Reduces a tensor of losses as `R` says.
#[track_caller]
pub(crate) fn reduce<A: Element, D: Rank, R: Reduction>(
    name: &'static str,
    losses: Layer<Nd<A, D>>,
) -> Layer<R::Of<A, D>> {
    Layer::apply_built_in(ReduceLoss::<A, D, R> { name, types: PhantomData }, (losses,))
}

struct ReduceLoss<A, D, R> {
    name: &'static str,
    types: PhantomData<(A, D, R)>,
}

impl<A: Element, D: Rank, R: Reduction> Primitive for ReduceLoss<A, D, R> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = R::Of<A, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (losses,): (&Nd<A, D>,)) -> Result<R::Of<A, D>> {
        R::fold(losses.clone(), losses.shape())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let shape = at.values.0.dim();
        (Some(broadcast_to(&R::unfold(at.delta, shape.clone()), shape)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<R::Of<A, D>>> {
        Some(reduce::<A, D, R>(self.name, along.tangents.0.clone()?))
    }

    fn cost(&self, (losses,): (&Nd<A, D>,)) -> f64 {
        200.0 + losses.nanoseconds_to_compute() + 0.5 * losses.len() as f64
    }
}

impl<A: Element, D: Rank, R: Reduction> BuiltIn for ReduceLoss<A, D, R> {
    const IS_PURE: bool = true;
}
