//! Reductions of the losses of single elements: mean, sum, mean over the batch, or none.

use crate::device::Device;
use crate::fusion::number_later;
use crate::kernels::sum_all;
use crate::ops::broadcast::broadcast_to;
use crate::ops::reduce::{fill_on, total};
use crate::ops::reshape::reshape_to;
use crate::tensor::{Element, Nd, Rank, unit_shape};
use dl_core::{Along, At, Binary, BuiltIn, Data, Error, Layer, Primitive, Result};
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
}

/// How a loss function reduces the losses of single elements: [`Mean`], [`Sum`], [`BatchMean`] or
/// [`Each`]; or one chosen at run time, [`LossReduction`]. This is PyTorch's `reduction`.
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
    note = "the reductions are `Mean`, `Sum`, `BatchMean` and `Each`, and `LossReduction` for one that is chosen at run time"
)]
pub trait Reduction: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The type of the result for losses of rank `D`.
    type Of<A: Element, D: Rank>: Data<Delta = Self::Of<A, D>>;

    /// Whether the sum is divided by the number, or the total weight, of all losses.
    #[doc(hidden)]
    fn is_mean(self) -> bool {
        false
    }

    /// Reduces losses. `from` is the shape of the loss function's input, for error messages.
    #[doc(hidden)]
    fn fold<A: Element, D: Rank>(self, losses: Nd<A, D>, from: &[usize]) -> Result<Self::Of<A, D>>;

    /// The delta of each loss. It broadcasts to `shape`, which has an element for each loss.
    #[doc(hidden)]
    fn unfold<A: Element, D: Rank, E: Rank>(
        self,
        delta: &Layer<Self::Of<A, D>>,
        shape: E,
        place: Option<Arc<dyn Device>>,
    ) -> Layer<Nd<A, E>>;

    /// Reduces losses that are already multiplied by their weights. Only a mean uses the weights:
    /// it divides by their sum.
    #[doc(hidden)]
    #[track_caller]
    fn weighted<A: Element, D: Rank, E: Rank>(
        self,
        name: &'static str,
        losses: Layer<Nd<A, D>>,
        _weights: Layer<Nd<A, E>>,
    ) -> Layer<Self::Of<A, D>> {
        reduce(name, losses, self)
    }
}

/// The mean of the losses, a number; the default of every loss function. If the losses have
/// weights (see [`CrossEntropy`](crate::CrossEntropy)), it is the weighted mean `Σ w·l / Σ w`. A
/// total weight of 0 is an error.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::{LossOps, Mean, Nd};
/// assert_eq!(Nd::from([1.0, 2.0]).l1_with(Nd::from([2.0, 5.0]), Mean).predict().wait()?, 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean;

/// The sum of the losses, a number.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::{LossOps, Nd, Sum};
/// assert_eq!(Nd::from([1.0, 2.0]).l1_with(Nd::from([2.0, 5.0]), Sum).predict().wait()?, 4.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;

/// The sum of the losses divided by the length of the first axis: the mean over a batch, a number.
/// PyTorch's `batchmean`.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::{BatchMean, LossOps, Nd};
/// let (x, y) = (Nd::from([[1.0, 2.0], [3.0, 4.0]]), Nd::from([[0.0; 2]; 2]));
/// assert_eq!(x.l1_with(y, BatchMean).predict().wait()?, 5.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchMean;

/// A reduction to a number that is chosen at run time, for instance by a configuration. It is read
/// from the names that PyTorch uses: `mean`, `sum` and `batchmean`.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::{LossOps, LossReduction, Nd};
/// let reduction: LossReduction = "sum".parse()?;
/// assert_eq!(Nd::from([1.0, 2.0]).l1_with(Nd::from([2.0, 5.0]), reduction).predict().wait()?, 4.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossReduction {
    /// As [`Mean`].
    #[default]
    Mean,
    /// As [`Sum`].
    Sum,
    /// As [`BatchMean`].
    BatchMean,
}

impl LossReduction {
    /// The divisor of the sum of so many losses, whose tensor has this shape.
    fn divisor(self, losses: usize, shape: &[usize]) -> usize {
        match self {
            LossReduction::Mean => losses,
            LossReduction::Sum => 1,
            LossReduction::BatchMean => shape.first().copied().unwrap_or(1),
        }
    }
}

impl FromStr for LossReduction {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "mean" => Ok(LossReduction::Mean),
            "sum" => Ok(LossReduction::Sum),
            "batchmean" => Ok(LossReduction::BatchMean),
            _ => Err(Error::invalid(format!("the reduction `{name}` is not `mean`, `sum` or `batchmean`"))),
        }
    }
}

macro_rules! numbers {
    ($($Name:ident: |$it:ident| $kind:expr;)*) => {$(
        impl sealed::Sealed for $Name {}

        impl Reduction for $Name {
            type Of<A: Element, D: Rank> = A;

            fn is_mean(self) -> bool {
                let $it = self;
                $kind == LossReduction::Mean
            }

            fn fold<A: Element, D: Rank>(self, losses: Nd<A, D>, from: &[usize]) -> Result<A> {
                let $it = self;
                let divisor = $kind.divisor(losses.len(), losses.shape());
                if divisor == 0 {
                    return Err(Error::shape(format!("the mean over an empty batch, of shape {from:?}")));
                }
                let sum = match losses.0.on_device()? {
                    Some(view) => return number_later(view.sum_all(&[1])?, move |sum: A| sum / A::of(divisor as f64)),
                    None => sum_all(losses.0.view().into_dyn()),
                };
                Ok(sum / A::of(divisor as f64))
            }

            fn unfold<A: Element, D: Rank, E: Rank>(
                self,
                delta: &Layer<A>,
                shape: E,
                place: Option<Arc<dyn Device>>,
            ) -> Layer<Nd<A, E>> {
                let $it = self;
                match $kind.divisor(shape.size(), shape.slice()) {
                    1 => fill_on(delta, unit_shape(), place),
                    divisor => {
                        fill_on(&A::with_number(Binary::Div, delta, divisor as f64, false), unit_shape(), place)
                    }
                }
            }

            #[track_caller]
            fn weighted<A: Element, D: Rank, E: Rank>(
                self,
                name: &'static str,
                losses: Layer<Nd<A, D>>,
                weights: Layer<Nd<A, E>>,
            ) -> Layer<A> {
                if !self.is_mean() {
                    return reduce(name, losses, self);
                }
                let all = Layer::apply_built_in(TotalWeight { name, element: PhantomData }, (total(weights),));
                A::binary(Binary::Div, &total(losses), &all)
            }
        }
    )*};
}

numbers! {
    Mean: |_it| LossReduction::Mean;
    Sum: |_it| LossReduction::Sum;
    BatchMean: |_it| LossReduction::BatchMean;
    LossReduction: |kind| kind;
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

    fn fold<A: Element, D: Rank>(self, losses: Nd<A, D>, _: &[usize]) -> Result<Nd<A, D>> {
        Ok(losses)
    }

    fn unfold<A: Element, D: Rank, E: Rank>(
        self,
        delta: &Layer<Nd<A, D>>,
        shape: E,
        _: Option<Arc<dyn Device>>,
    ) -> Layer<Nd<A, E>> {
        reshape_to(delta, shape)
    }
}

/// The divisor of a weighted mean. It must not be 0.
#[derive(Clone)]
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

/// Reduces a tensor of losses.
#[track_caller]
pub(crate) fn reduce<A: Element, D: Rank, R: Reduction>(
    name: &'static str,
    losses: Layer<Nd<A, D>>,
    reduction: R,
) -> Layer<R::Of<A, D>> {
    Layer::apply_built_in(ReduceLoss { name, reduction, types: PhantomData }, (losses,))
}

#[derive(Clone)]
struct ReduceLoss<A, D, R> {
    name: &'static str,
    reduction: R,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank, R: Reduction> Primitive for ReduceLoss<A, D, R> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = R::Of<A, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (losses,): (&Nd<A, D>,)) -> Result<R::Of<A, D>> {
        self.reduction.fold(losses.clone(), losses.shape())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (shape, place) = (at.values.0.dim(), at.values.0.device().cloned());
        (Some(broadcast_to(&self.reduction.unfold::<A, D, D>(at.delta, shape.clone(), place), shape)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<R::Of<A, D>>> {
        Some(reduce(self.name, along.tangents.0.clone()?, self.reduction))
    }

    fn cost(&self, (losses,): (&Nd<A, D>,)) -> f64 {
        200.0 + losses.nanoseconds_to_read() + losses.nanoseconds_to_compute() + 0.5 * losses.len() as f64
    }
}

impl<A: Element, D: Rank, R: Reduction> BuiltIn for ReduceLoss<A, D, R> {
    const IS_PURE: bool = true;
    const CAN_BE_LATER: bool = true;
}
