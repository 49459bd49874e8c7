//! Variances, standard deviations and p-norms, and the deviations from a mean.

use crate::kernels;
use crate::ops::axes::{Axes, AxisList};
use crate::ops::invalid::invalid;
use crate::ops::pointwise::binary;
use crate::ops::reduce::{Reduce, ReduceForm, ReduceOp, ReduceOutput, reduce};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Along, At, Binary, BuiltIn, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use std::marker::PhantomData;

/// Variances, standard deviations and norms. Each has the three forms of
/// [`ReduceOps`](crate::ReduceOps).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, SpreadOps};
/// assert_eq!(Nd::from([1.0, 3.0]).std(0).predict().wait()?, 1.0);
/// # dl_core::Result::Ok(())
/// ```
pub trait SpreadOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The variance of all elements: `Σ (x − mean)² / (n − correction)`. A correction of 1 gives
    /// the unbiased estimate from a sample, PyTorch's default; 0 gives the population variance,
    /// NumPy's default.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([1.0, 3.0]).var(1).predict().wait()?, 2.0);
    /// assert_eq!(Nd::from([1.0, 3.0]).var(0).predict().wait()?, 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the number of elements does not exceed the correction.
    #[track_caller]
    fn var(&self, correction: usize) -> Layer<A> {
        spread(
            self.layer(),
            ReduceOp::MeanSquare,
            Axes::<D>::into_list(..),
            ReduceForm { name: "var", keep_dims: false, correction, eps: 0.0 },
        )
    }

    /// [`var`](SpreadOps::var) over some axes, which are removed.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([[1.0, 3.0], [2.0, 6.0]]).var_axis(1, 1).predict().wait()?, Nd::from([2.0, 8.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn var_axis<X: Axes<D>>(&self, axes: X, correction: usize) -> Layer<Nd<A, X::Rest>> {
        spread(
            self.layer(),
            ReduceOp::MeanSquare,
            axes.into_list(),
            ReduceForm { name: "var_axis", keep_dims: false, correction, eps: 0.0 },
        )
    }

    /// [`var`](SpreadOps::var) over some axes, which are kept with length 1.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([[1.0, 3.0], [2.0, 6.0]]).var_keepdim(1, 1).predict().wait()?, Nd::from([[2.0], [8.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn var_keepdim(&self, axes: impl Axes<D>, correction: usize) -> Layer<Nd<A, D>> {
        spread(
            self.layer(),
            ReduceOp::MeanSquare,
            axes.into_list(),
            ReduceForm { name: "var_keepdim", keep_dims: true, correction, eps: 0.0 },
        )
    }

    /// The `p`-norm `(Σ |x|ᵖ)^(1/p)` for a positive `p`: the sum of the magnitudes for 1,
    /// [`norm`](crate::ReduceOps::norm) for 2, the largest magnitude for `f64::INFINITY`. Its
    /// gradient at 0 is 0.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([3.0, -4.0]).norm_p(1.0).predict().wait()?, 7.0);
    /// assert_eq!(Nd::from([3.0, -4.0]).norm_p(f64::INFINITY).predict().wait()?, 4.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `p` is not positive.
    #[track_caller]
    fn norm_p(&self, p: f64) -> Layer<A> {
        norm_p(self.layer(), p, Axes::<D>::into_list(..), ReduceForm::of("norm_p", false))
    }

    /// [`norm_p`](SpreadOps::norm_p) over some axes, which are removed.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([[3.0, -4.0]]).norm_p_axis(1, 1.0).predict().wait()?, Nd::from([7.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn norm_p_axis<X: Axes<D>>(&self, axes: X, p: f64) -> Layer<Nd<A, X::Rest>> {
        norm_p(self.layer(), p, axes.into_list(), ReduceForm::of("norm_p_axis", false))
    }

    /// [`norm_p`](SpreadOps::norm_p) over some axes, which are kept with length 1.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([[3.0, -4.0]]).norm_p_keepdim(1, 1.0).predict().wait()?, Nd::from([[7.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn norm_p_keepdim(&self, axes: impl Axes<D>, p: f64) -> Layer<Nd<A, D>> {
        norm_p(self.layer(), p, axes.into_list(), ReduceForm::of("norm_p_keepdim", true))
    }

    /// The standard deviation, the square root of [`var`](SpreadOps::var). Its gradient at 0 is 0.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([1.0, 3.0]).std(0).predict().wait()?, 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn std(&self, correction: usize) -> Layer<A> {
        spread(
            self.layer(),
            ReduceOp::RootMeanSquare,
            Axes::<D>::into_list(..),
            ReduceForm { name: "std", keep_dims: false, correction, eps: 0.0 },
        )
    }

    /// [`std`](SpreadOps::std) over some axes, which are removed.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([[1.0, 3.0], [2.0, 6.0]]).std_axis(1, 0).predict().wait()?, Nd::from([1.0, 2.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn std_axis<X: Axes<D>>(&self, axes: X, correction: usize) -> Layer<Nd<A, X::Rest>> {
        spread(
            self.layer(),
            ReduceOp::RootMeanSquare,
            axes.into_list(),
            ReduceForm { name: "std_axis", keep_dims: false, correction, eps: 0.0 },
        )
    }

    /// [`std`](SpreadOps::std) over some axes, which are kept with length 1.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SpreadOps};
    /// assert_eq!(Nd::from([[1.0, 3.0], [2.0, 6.0]]).std_keepdim(1, 0).predict().wait()?, Nd::from([[1.0], [2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn std_keepdim(&self, axes: impl Axes<D>, correction: usize) -> Layer<Nd<A, D>> {
        spread(
            self.layer(),
            ReduceOp::RootMeanSquare,
            axes.into_list(),
            ReduceForm { name: "std_keepdim", keep_dims: true, correction, eps: 0.0 },
        )
    }
}

impl<X, A: Element, D: Rank> SpreadOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
fn spread<A: Element, D: Rank, O: ReduceOutput<A, D>>(
    x: Layer<Nd<A, D>>,
    op: ReduceOp,
    axes: AxisList,
    form: ReduceForm,
) -> Layer<O> {
    reduce(centered(form.name, x, axes.clone()), op, axes, form)
}

/// `x − mean` along `axes`.
#[track_caller]
pub(crate) fn centered<A: Element, D: Rank>(name: &'static str, x: Layer<Nd<A, D>>, axes: AxisList) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Center(Reduce::new(ReduceOp::Mean, axes, ReduceForm::of(name, true))), (x,))
}

/// A tensor minus its mean. The mean is rounded to a multiple of its last digit, which may be more
/// than all deviations from it. The mean of the rounded deviations is that error, so it is
/// subtracted as well.
#[derive(Clone)]
struct Center<A: Element, D: Rank>(Reduce<A, D, Nd<A, D>>);

impl<A: Element, D: Rank> Primitive for Center<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let rough = binary(Binary::Sub, x, &self.0.value((x,))?)?;
        binary(Binary::Sub, &rough, &self.0.value((&rough,))?)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(Layer::apply_built_in(self.clone(), (at.delta.clone(),))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        2.0 * self.0.cost((x,))
    }
}

impl<A: Element, D: Rank> BuiltIn for Center<A, D> {
    const IS_PURE: bool = true;
}

/// A power of non-negative numbers, with value and derivative 0 at 0. The derivative of
/// the power itself may be infinite there, so 1 takes the place of 0 as its argument.
#[track_caller]
fn power_with_zero<O: Pointwise>(x: &Layer<O>, power_with_zero: impl FnOnce(Layer<O>) -> Layer<O>) -> Layer<O> {
    let sign = x.sign();
    let positive = O::binary(Binary::Add, x, &O::with_number(Binary::Sub, &sign, 1.0, true));
    O::binary(Binary::Mul, &power_with_zero(positive), &sign)
}

#[track_caller]
fn norm_p<A: Element, D: Rank, O: ReduceOutput<A, D> + Pointwise>(
    x: Layer<Nd<A, D>>,
    p: f64,
    axes: AxisList,
    form: ReduceForm,
) -> Layer<O> {
    match p {
        1.0 => reduce(x.abs(), ReduceOp::Sum, axes, form),
        2.0 => reduce(x, ReduceOp::Norm, axes, form),
        f64::INFINITY => reduce(x.abs(), ReduceOp::Amax, axes, form),
        p if p > 0.0 => {
            let op = NormUnit { p, axes: axes.clone(), name: form.name, types: PhantomData };
            let unit = Layer::apply_built_in(op, (x.clone(),));
            let parts = Nd::binary(Binary::Div, &x, &unit).abs();
            let powers = power_with_zero(&parts, |x| Nd::with_number(Binary::Pow, &x, p, false));
            let powers: Layer<O> = reduce(powers, ReduceOp::Sum, axes.clone(), form);
            let norm = power_with_zero::<O>(&powers, |powers| O::with_number(Binary::Pow, &powers, p.recip(), false));
            O::binary(Binary::Mul, &norm, &reduce(unit, ReduceOp::Sum, axes, form))
        }
        _ => invalid(form.name, Error::invalid(format!("there is no {p}-norm: p must be positive"))),
    }
}

/// x ↦ the unit of each reduction in which its `p`-norm is computed, a constant: 1, unless the `p`-th
/// power of the largest magnitude might overflow or underflow. The norm of `x` is the unit times that
/// of `x / unit`.
#[derive(Clone)]
struct NormUnit<A, D> {
    p: f64,
    axes: AxisList,
    name: &'static str,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for NormUnit<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let axes = self.axes.of(x.shape())?;
        let [low, high] = [1e-20_f64, 1e20].map(|power| A::of(power.powf(self.p.recip())));
        let magnitudes = x.0.mapv(A::abs).into_dyn();
        let largest = kernels::fold_axes(magnitudes.view(), &axes, A::zero(), |a, b| Binary::Max.value(a, b));
        let units = largest.mapv_into(|largest| {
            let largest = largest.max(A::min_positive_value()).min(A::max_value());
            largest / largest.max(low).min(high)
        });
        Ok(ReduceOutput::<A, D>::from_reduced(units, &axes, true))
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_compute() + x.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for NormUnit<A, D> {
    const IS_PURE: bool = true;
}
