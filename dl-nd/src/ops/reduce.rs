//! Reductions over all axes or some of them: sum, mean, product, extrema, log-sum-exp, norm.

use crate::device::Place;
use crate::fusion::{CHUNK_LEN, canonicalize_nan, should_defer};
use crate::ops::axes::{Axes, AxisList};
use crate::ops::broadcast::{broadcast_to, sum_of_rows_op};
use crate::ops::compare::choose;
use crate::ops::leave_one_out::{are_normal, leave_one_out};
use crate::ops::pointwise::binary;
use crate::ops::reshape::reshape_to;
use crate::ops::softmax::log_sum_exp;
use crate::tensor::{Element, Expr, LazyTensor, Nd, Rank, Storage, check_size, filled_array, unit_shape};
use crate::{fusion, kernels};
use dl_core::{
    Along, At, Binary, BlockOp, BuiltIn, Data, Differentiable, Error, Layer, Number, Others, Pointwise, Primitive,
    Result, Unary,
};
use ndarray::{ArrayD, Axis, Dimension, Ix0};
use std::any::Any;
use std::convert::identity;
use std::marker::PhantomData;
use std::sync::Arc;

/// Folds a tensor along axes with an operation. The operation is known at compile time.
macro_rules! fold {
    ($x:expr, $axes:expr, $Op:ident, $empty:expr) => {
        kernels::fold_axes(
            $x,
            $axes,
            $empty,
            #[inline(always)]
            |a, b| Binary::$Op.value(a, b),
        )
    };
}

macro_rules! reductions {
    ($($(#[doc = $doc:literal])+ $ReduceOp:ident $name:ident $axis:ident $keepdim:ident: $total:literal, $rows:literal, $columns:literal;)*) => {
        #[derive(Clone, Copy, PartialEq)]
        pub(crate) enum ReduceOp {
            $($ReduceOp,)*
            /// The mean of the squares, `Σ x² / n`.
            MeanSquare,
            /// The root of the mean of the squares, `√(Σ x² / n + eps)`. Its gradient at 0 is 0.
            RootMeanSquare,
        }

        /// Reductions of tensors.
        ///
        /// Each has three forms: over all elements, giving a number (`sum`); over some
        /// [axes](Axes), which are removed (`sum_axis`); over some axes, which are kept with
        /// length 1 (`sum_keepdim`).
        ///
        /// ```
        /// use dl_core::Differentiable;
        /// use dl_nd::{Nd, ReduceOps};
        /// let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
        /// assert_eq!(x.sum().predict().wait()?, 10.0);
        /// assert_eq!(x.sum_axis(0).predict().wait()?, Nd::from([4.0, 6.0]));
        /// assert_eq!(x.sum_keepdim(-1).predict().wait()?, Nd::from([[3.0], [7.0]]));
        /// # dl_core::Result::Ok(())
        /// ```
        pub trait ReduceOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
            $(
                $(#[doc = $doc])+
                ///
                #[doc = concat!(
                    "```\n# use dl_core::Differentiable; use dl_nd::{Nd, ReduceOps};\n",
                    "assert_eq!(Nd::from([[1.0_f64, 2.0], [3.0, 4.0]]).", stringify!($name), "().predict().wait()?, ", $total,
                    ");\n# dl_core::Result::Ok(())\n```"
                )]
                #[track_caller]
                fn $name(&self) -> Layer<A> {
                    reduce(self.layer(), ReduceOp::$ReduceOp, Axes::<D>::into_list(..), ReduceForm::of(stringify!($name), false))
                }

                #[doc = concat!("[`", stringify!($name), "`](ReduceOps::", stringify!($name), ") over some axes, which are removed.")]
                ///
                #[doc = concat!(
                    "```\n# use dl_core::Differentiable; use dl_nd::{Nd, ReduceOps};\n",
                    "assert_eq!(Nd::from([[1.0_f64, 2.0], [3.0, 4.0]]).", stringify!($axis), "(0).predict().wait()?, Nd::from(", $rows,
                    "));\n# dl_core::Result::Ok(())\n```"
                )]
                ///
                /// # Errors
                /// When an axis does not exist or is named twice, and, for a mean or an extremum,
                /// when there are no elements to reduce.
                #[track_caller]
                fn $axis<X: Axes<D>>(&self, axes: X) -> Layer<Nd<A, X::Rest>> {
                    reduce(self.layer(), ReduceOp::$ReduceOp, axes.into_list(), ReduceForm::of(stringify!($axis), false))
                }

                #[doc = concat!("[`", stringify!($name), "`](ReduceOps::", stringify!($name), ") over some axes, which are kept with length 1.")]
                ///
                #[doc = concat!(
                    "```\n# use dl_core::Differentiable; use dl_nd::{Nd, ReduceOps};\n",
                    "assert_eq!(Nd::from([[1.0_f64, 2.0], [3.0, 4.0]]).", stringify!($keepdim), "(1).predict().wait()?, Nd::from(", $columns,
                    "));\n# dl_core::Result::Ok(())\n```"
                )]
                ///
                /// # Errors
                /// When an axis does not exist or is named twice, and, for a mean or an extremum,
                /// when there are no elements to reduce.
                #[track_caller]
                fn $keepdim(&self, axes: impl Axes<D>) -> Layer<Nd<A, D>> {
                    reduce(self.layer(), ReduceOp::$ReduceOp, axes.into_list(), ReduceForm::of(stringify!($keepdim), true))
                }
            )*
        }
    };
}

reductions! {
    /// The sum of all elements; 0 if there are none.
    Sum sum sum_axis sum_keepdim: "10.0", "[4.0, 6.0]", "[[3.0], [7.0]]";
    /// The mean of all elements, without overflow. A tensor without elements is an error.
    Mean mean mean_axis mean_keepdim: "2.5", "[2.0, 3.0]", "[[1.5], [3.5]]";
    /// The product of all elements; 1 if there are none. The gradient is correct for elements that
    /// are 0, too.
    Prod prod prod_axis prod_keepdim: "24.0", "[3.0, 8.0]", "[[2.0], [12.0]]";
    /// The largest element, or NaN if there is one. Equal largest elements share the gradient. A
    /// tensor without elements is an error.
    Amax amax amax_axis amax_keepdim: "4.0", "[3.0, 4.0]", "[[2.0], [4.0]]";
    /// The smallest element, or NaN if there is one. Equal smallest elements share the gradient. A
    /// tensor without elements is an error.
    Amin amin amin_axis amin_keepdim: "1.0", "[1.0, 2.0]", "[[1.0], [3.0]]";
    /// `ln Σ exp(x)` of all elements, without overflow; −∞ if there are none.
    LogSumExp logsumexp logsumexp_axis logsumexp_keepdim:
        "(1_f64.exp() + 2_f64.exp() + 3_f64.exp() + 4_f64.exp()).ln()",
        "[3.0 + ((-2_f64).exp() + 1.0).ln(), 4.0 + ((-2_f64).exp() + 1.0).ln()]",
        "[[2.0 + ((-1_f64).exp() + 1.0).ln()], [4.0 + ((-1_f64).exp() + 1.0).ln()]]";
    /// The Euclidean norm `√Σ x²`. It is correct even if the squares overflow or underflow. Its
    /// gradient at 0 is 0.
    Norm norm norm_axis norm_keepdim:
        "30_f64.sqrt()",
        "[10_f64.sqrt(), 20_f64.sqrt()]",
        "[[5_f64.sqrt()], [5.0]]";
}

impl<X, A: Element, D: Rank> ReduceOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// The form of a reduction: the name of the method and its settings.
#[derive(Clone, Copy)]
pub(crate) struct ReduceForm {
    pub(crate) name: &'static str,
    /// Whether the reduced axes are kept, with length 1.
    pub(crate) keep_dims: bool,
    /// The number by which the divisor of a mean is reduced.
    pub(crate) correction: usize,
    /// The number that is added to the mean of the squares under a root.
    pub(crate) eps: f64,
}

impl ReduceForm {
    const SUM_KEEPDIM: ReduceForm = ReduceForm { name: "sum", keep_dims: true, correction: 0, eps: 0.0 };

    pub(crate) fn of(name: &'static str, keep_dims: bool) -> ReduceForm {
        ReduceForm { name, keep_dims, correction: 0, eps: 0.0 }
    }
}

#[track_caller]
pub(crate) fn reduce<A: Element, D: Rank, O: ReduceOutput<A, D>>(
    x: Layer<Nd<A, D>>,
    op: ReduceOp,
    axes: AxisList,
    form: ReduceForm,
) -> Layer<O> {
    Layer::apply_built_in(Reduce::new(op, axes, form), (x,))
}

/// The sum of all elements.
#[track_caller]
pub(crate) fn total<A: Element, D: Rank>(x: Layer<Nd<A, D>>) -> Layer<A> {
    reduce(x, ReduceOp::Sum, Axes::<D>::into_list(..), ReduceForm::of("sum", false))
}

/// The sums along an axis, which is kept with length 1.
#[track_caller]
pub(crate) fn sum_keepdim<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: isize) -> Layer<Nd<A, D>> {
    reduce(x, ReduceOp::Sum, AxisList::one(axis), ReduceForm::SUM_KEEPDIM)
}

/// The output type of a reduction: a number or a tensor.
pub(crate) trait ReduceOutput<A: Element, D: Rank>: Data<Delta = Self> {
    /// Converts from a tensor in which the reduced axes have length 1.
    fn from_reduced(reduced: ArrayD<A>, axes: &[usize], keep_dims: bool) -> Self;

    /// The inverse: a tensor of this shape, in which the reduced axes have length 1. A number becomes
    /// a tensor on this place.
    fn with_kept_dims(output: &Layer<Self>, shape: D, place: Place) -> Layer<Nd<A, D>>;

    /// As [`from_reduced`](ReduceOutput::from_reduced), on a device. A number is read from there.
    fn from_device(reduced: Nd<A, D>, axes: &[usize], keep_dims: bool) -> Result<Self>;

    fn all(&self, is: impl Fn(A) -> bool) -> bool;

    /// Whether the result is a number, for which a device is waited for.
    const IS_NUMBER: bool = false;
}

impl<A: Element, D: Rank> ReduceOutput<A, D> for A {
    fn from_reduced(reduced: ArrayD<A>, _: &[usize], _: bool) -> A {
        *reduced.first().expect("one element")
    }

    fn with_kept_dims(output: &Layer<A>, shape: D, place: Place) -> Layer<Nd<A, D>> {
        fill_on(output, shape, place)
    }

    fn from_device(reduced: Nd<A, D>, _: &[usize], _: bool) -> Result<A> {
        fusion::number_later(reduced.0.on_device()?.expect("it lies on a device"), identity)
    }

    fn all(&self, is: impl Fn(A) -> bool) -> bool {
        is(*self)
    }

    const IS_NUMBER: bool = true;
}

impl<A: Element, D: Rank, E: Rank> ReduceOutput<A, D> for Nd<A, E> {
    fn from_reduced(mut reduced: ArrayD<A>, axes: &[usize], keep_dims: bool) -> Self {
        if !keep_dims {
            for &axis in axes.iter().rev() {
                reduced = reduced.index_axis_move(Axis(axis), 0);
            }
        }
        reduced.into_dimensionality().expect("the rank without the reduced axes").into()
    }

    fn with_kept_dims(output: &Layer<Self>, shape: D, _: Place) -> Layer<Nd<A, D>> {
        reshape_to(output, shape)
    }

    fn from_device(reduced: Nd<A, D>, axes: &[usize], keep_dims: bool) -> Result<Self> {
        if keep_dims && let Some(same) = (&reduced as &dyn Any).downcast_ref::<Self>() {
            return Ok(same.clone()); // not computed yet, if it is an expression
        }
        let view = reduced.0.on_device()?.expect("it lies on a device");
        let removed = axes.iter().rev().filter(|_| !keep_dims);
        Ok(Nd(Storage::from_view(removed.fold(view, |view, &axis| view.without(axis)))))
    }

    fn all(&self, is: impl Fn(A) -> bool) -> bool {
        self.0.iter().all(|&x| is(x))
    }
}

#[derive(Clone)]
pub(crate) struct Reduce<A, D, O> {
    pub(super) op: ReduceOp,
    axes: AxisList,
    pub(super) form: ReduceForm,
    types: PhantomData<(A, D, O)>,
}

impl<A: Element, D: Rank, O: ReduceOutput<A, D>> Primitive for Reduce<A, D, O> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = O;

    fn name(&self) -> &'static str {
        self.form.name
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<O> {
        let axes = self.axes.of(x.shape())?;
        let count = self.count(x.shape(), &axes)?;
        if x.is_empty() {
            // a tensor without elements can have an arbitrarily large result: [0, n] → [n]
            let left: Vec<usize> =
                x.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, &l)| l).collect();
            check_size::<A>(&left)?;
        }
        if let Some(view) = x.0.on_device()? {
            let reduced = self.on_device::<D>(view, &axes, count)?;
            return O::from_device(reduced, &axes, self.form.keep_dims);
        }
        let view = || x.0.view().into_dyn();
        let root = |(unit, mean): (A, A)| unit * mean.sqrt();
        let reduced = match self.op {
            ReduceOp::Sum => sums(x, &axes),
            ReduceOp::Mean => means(x, &axes, count),
            ReduceOp::Prod => fold!(view(), &axes, Mul, A::of(1.0)),
            ReduceOp::Amax => fold!(view(), &axes, Max, A::neg_infinity()),
            ReduceOp::Amin => fold!(view(), &axes, Min, A::infinity()),
            ReduceOp::Norm => mean_squares(x, &axes, 1.0, 0.0).mapv(root),
            ReduceOp::RootMeanSquare => mean_squares(x, &axes, count, self.form.eps).mapv(root),
            ReduceOp::MeanSquare => mean_squares(x, &axes, count, 0.0).mapv(|(unit, mean)| unit * (unit * mean)),
            ReduceOp::LogSumExp if x.len() < CHUNK_LEN => log_sum_exps(&view(), &axes),
            ReduceOp::LogSumExp => log_sum_exps_of_many(x, &axes),
        };
        Ok(O::from_reduced(reduced, &axes, self.form.keep_dims))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (x, shape) = (&at.operands.0, at.values.0.dim());
        let axes = self.axes.of(shape.slice()).expect("the axes were checked");
        let mut reduced = shape.clone();
        axes.iter().for_each(|&axis| reduced.slice_mut()[axis] = 1);
        let place = || at.values.0.0.device().cloned();
        let d = O::with_kept_dims(at.delta, reduced.clone(), place());
        let y = || O::with_kept_dims(at.output, reduced.clone(), place());
        let delta = match self.op {
            ReduceOp::Sum | ReduceOp::Mean => self.delta_of_terms(&d, shape),
            ReduceOp::Prod => {
                // y / x is the product of the other elements, unless y has overflowed or underflowed
                let quotients = || Nd::binary(Binary::Div, &y(), x);
                let others = match place() {
                    None if at.values.0.0.iter().all(|&x| x != A::zero()) && at.value.all(|y| y.is_normal()) => {
                        quotients()
                    }
                    None => leave_one_out(x, shape, &axes, None),
                    Some(_) if shape.size() == 0 => quotients(),
                    // a mask says what the host looks at
                    place => choose(are_normal(x, &y()), quotients(), leave_one_out(x, shape, &axes, place)),
                };
                Nd::binary(Binary::StrongMul, &d, &others)
            }
            ReduceOp::Amax => split_ties(&d, &Nd::binary(Binary::Above, x, &y()), self.axes.clone()),
            ReduceOp::Amin => split_ties(&d, &Nd::binary(Binary::Above, &y(), x), self.axes.clone()),
            ReduceOp::LogSumExp => {
                // the softmax exp(x − y), divided by its sum, which is 1 up to the rounding of y
                let terms = Nd::binary(Binary::Sub, x, &y()).exp();
                let sum = reduce(terms.clone(), ReduceOp::Sum, self.axes.clone(), ReduceForm::of("sum_keepdim", true));
                Nd::binary(Binary::StrongMul, &d, &Nd::binary(Binary::Div, &terms, &sum))
            }
            ReduceOp::Norm | ReduceOp::RootMeanSquare => {
                // x / y, and 0 with derivative 0 where y is 0
                let (y, sign) = (y(), y().sign());
                let length = Nd::binary(Binary::Add, &y, &Nd::with_number(Binary::Sub, &sign, 1.0, true));
                let d = Nd::binary(Binary::BothStrongMul, &sign, &self.delta_of_term(&d, shape.slice()));
                Nd::binary(Binary::StrongMul, &d, &Nd::binary(Binary::Div, x, &length))
            }
            ReduceOp::MeanSquare => {
                let d = Nd::with_number(Binary::Mul, &self.delta_of_term(&d, shape.slice()), 2.0, false);
                Nd::binary(Binary::StrongMul, &d, x)
            }
        };
        (Some(delta),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<O>> {
        match self.op {
            ReduceOp::Sum | ReduceOp::Mean => {
                Some(reduce(along.tangents.0.clone()?, self.op, self.axes.clone(), self.form))
            }
            _ => along.transposed(self),
        }
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        let each = if self.op == ReduceOp::LogSumExp { 10.0 } else { 1.0 };
        let wait = if O::IS_NUMBER { x.nanoseconds_to_read() } else { 0.0 };
        200.0 + wait + x.nanoseconds_to_compute() + x.len() as f64 * each
    }
}

impl<A: Element, D: Rank, O: ReduceOutput<A, D>> BuiltIn for Reduce<A, D, O> {
    const IS_PURE: bool = true;
    const CAN_DEFER_VALUE: bool = true;
    const CAN_BE_LATER: bool = true;

    fn is_by_rows(&self, _: &[bool], (x,): (&Nd<A, D>,), _: &O) -> bool {
        self.axes.of(x.shape()).is_ok_and(|axes| !axes.contains(&0))
    }

    fn block_op(&self, (x,): (&Nd<A, D>,), _: &O) -> Option<BlockOp> {
        let sums_rows = self.op == ReduceOp::Sum && self.axes.of(x.shape()).is_ok_and(|axes| axes[..] == [0]);
        if sums_rows { sum_of_rows_op(x) } else { None }
    }

    /// Available for the sum or mean of a lazy tensor, which is then computed together with the
    /// gradient.
    fn unit_cotangents(&self, (x,): (&Nd<A, D>,)) -> Option<(Option<Layer<Nd<A, D>>>,)> {
        self.pending_terms(x)?;
        // errors are reported by `value`
        self.count(x.shape(), &self.axes.of(x.shape()).ok()?).ok()?;
        Some((Some(self.delta_of_terms(&Layer::constant(Nd::full(unit_shape::<D>(), A::of(1.0))), x.dim())),))
    }

    fn value_fused_with(&self, (x,): (&Nd<A, D>,), others: Others<'_>) -> Result<O> {
        let Some(lazy) = self.pending_terms(x) else { return self.value((x,)) };
        let axes = self.axes.of(x.shape())?;
        let count = self.count(x.shape(), &axes)?;
        let others: Vec<&Nd<A, D>> = others.of::<Nd<A, D>>().collect();
        let total = fusion::sum_and_realize(lazy, &others);
        let reduced = match self.op {
            ReduceOp::Mean if !total.is_finite() => means(x, &axes, count),
            ReduceOp::Mean => one_number(total / A::of(count), x.shape().len()),
            _ => one_number(total, x.shape().len()),
        };
        Ok(O::from_reduced(reduced, &axes, self.form.keep_dims))
    }
}

impl<A: Element, D: Rank, O: ReduceOutput<A, D>> Reduce<A, D, O> {
    /// The lazy operand, if this is the sum or the mean of all its elements and they are not
    /// computed yet.
    fn pending_terms<'x>(&self, x: &'x Nd<A, D>) -> Option<&'x Arc<LazyTensor<A, D>>> {
        if x.0.device().is_some() {
            return None;
        }
        let of_all = || self.axes.of(x.shape()).is_ok_and(|axes| axes.len() == x.shape().len());
        if matches!(self.op, ReduceOp::Sum | ReduceOp::Mean) && of_all() { x.lazy() } else { None }
    }

    /// The value for elements in units of each reduction: a mean of squares or its root.
    pub(crate) fn value_in_units(&self, x: &Nd<A, D>, units: Nd<A, D>) -> Result<O> {
        let axes = self.axes.of(x.shape())?;
        let kept = ReduceForm { keep_dims: true, ..self.form };
        let mut reduced = Reduce::<A, D, Nd<A, D>>::new(self.op, self.axes.clone(), kept).value((x,))?;
        for _ in 0..if self.is_root() { 1 } else { 2 } {
            reduced = binary(Binary::Mul, &reduced, &units)?;
        }
        Ok(O::from_reduced(reduced.view().into_dyn().to_owned(), &axes, self.form.keep_dims))
    }

    /// The delta of each term of a sum or a mean, from the delta of the result with reduced axes of
    /// length 1.
    fn delta_of_terms(&self, d: &Layer<Nd<A, D>>, shape: D) -> Layer<Nd<A, D>> {
        broadcast_to(&self.delta_of_term(d, shape.slice()), shape)
    }

    /// The same, but in the shape of the result.
    fn delta_of_term(&self, d: &Layer<Nd<A, D>>, shape: &[usize]) -> Layer<Nd<A, D>> {
        if !self.op.is_mean() {
            return d.clone();
        }
        let axes = self.axes.of(shape).expect("the axes were checked");
        let count = self.count(shape, &axes).expect("the elements were counted");
        Nd::with_number(Binary::Div, d, count, false)
    }
}

impl ReduceOp {
    /// Whether the sum is divided by the number of elements.
    fn is_mean(self) -> bool {
        matches!(self, ReduceOp::Mean | ReduceOp::MeanSquare | ReduceOp::RootMeanSquare)
    }
}

impl<A, D, O> Reduce<A, D, O> {
    pub(crate) fn new(op: ReduceOp, axes: AxisList, form: ReduceForm) -> Self {
        Reduce { op, axes, form, types: PhantomData }
    }

    /// Whether the result is in the unit of the elements, not of their squares.
    pub(crate) fn is_root(&self) -> bool {
        self.op == ReduceOp::RootMeanSquare
    }

    /// The divisor of a mean: the number of elements per reduction, less the correction.
    fn count(&self, shape: &[usize], axes: &[usize]) -> Result<f64> {
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        let correction = self.form.correction;
        let of_one = self.op.is_mean() || matches!(self.op, ReduceOp::Amax | ReduceOp::Amin);
        if !of_one || count > correction {
            return Ok((count - correction) as f64);
        }
        Err(Error::shape(match (correction, axes) {
            (0, [axis]) => format!("axis {axis} of a tensor of shape {shape:?} has no elements"),
            (0, _) => format!("a tensor of shape {shape:?} has no elements"),
            _ => format!(
                "{count} elements per result for a tensor of shape {shape:?}; a correction of {correction} needs more than {correction}"
            ),
        }))
    }
}

/// The sums along `axes`. If all elements of a lazy tensor are summed, they are not stored.
fn sums<A: Element, D: Rank>(x: &Nd<A, D>, axes: &[usize]) -> ArrayD<A> {
    match x.lazy() {
        Some(lazy) if axes.len() == x.shape().len() => one_number(fusion::sum(lazy, &[]), axes.len()),
        _ => sum(&x.0.view().into_dyn(), axes),
    }
}

/// A number as a tensor with axes of length 1.
fn one_number<A: Element>(number: A, rank: usize) -> ArrayD<A> {
    ArrayD::from_elem(vec![1; rank], number)
}

/// The means along `axes`. Where the sum overflows, the elements are divided first.
fn means<A: Element, D: Rank>(x: &Nd<A, D>, axes: &[usize], count: f64) -> ArrayD<A> {
    let mut means = sums(x, axes).mapv_into(|sum| sum / A::of(count));
    if !means.iter().all(|mean| mean.is_finite()) {
        let parts = Expr::WithNumber { op: Binary::Div, number: A::of(count), left: false, x: x.clone() };
        let sums = sums(&parts.of_shape(x.dim()), axes);
        means.zip_mut_with(&sums, |mean, &sum| *mean = if mean.is_finite() { *mean } else { sum });
    }
    means
}

fn sum<A: Element>(x: &ndarray::ArrayViewD<'_, A>, axes: &[usize]) -> ArrayD<A> {
    if axes.len() == x.ndim() {
        return ArrayD::from_elem(vec![1; x.ndim()], kernels::sum_all(x.view()));
    }
    match axes {
        [] => x.to_owned(),
        [first, rest @ ..] => {
            rest.iter().fold(kernels::sum_along(x.view(), *first), |sum, &axis| kernels::sum_along(sum.view(), axis))
        }
    }
}

/// The log-sum-exp along `axes`. The elements of each reduction are arranged as a row first.
fn log_sum_exps<A: Element>(x: &ndarray::ArrayViewD<'_, A>, axes: &[usize]) -> ArrayD<A> {
    let mut reduced = x.raw_dim();
    axes.iter().for_each(|&axis| reduced[axis] = 1);
    let order: Vec<usize> = (0..x.ndim()).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect();
    let count: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let permuted = x.view().permuted_axes(order);
    let rows = permuted.to_shape([reduced.size(), count]).expect("as many elements");
    let each = rows.rows().into_iter().map(log_sum_exp).collect();
    ArrayD::from_shape_vec(reduced, each).expect("one for each row")
}

/// The same for many elements, which are not copied to rows.
fn log_sum_exps_of_many<A: Element, D: Rank>(x: &Nd<A, D>, axes: &[usize]) -> ArrayD<A> {
    let largest = fold!(x.0.view().into_dyn(), axes, Max, A::neg_infinity());
    let shift = largest.mapv(|largest| if largest.is_finite() { largest } else { A::zero() });
    let shift: Nd<A, D> = shift.into_dimensionality().expect("the same rank").into();
    let shifted = Expr::Binary(Binary::Sub, x.clone(), Expr::Repeat(shift).of_shape(x.dim())).of_shape(x.dim());
    let mut result = sums(&Expr::Unary(Unary::Exp, shifted).of_shape(x.dim()), axes);
    result.zip_mut_with(&largest, |sum, &largest| {
        *sum = if largest.is_finite() { Number::ln(*sum) + largest } else { canonicalize_nan(largest) };
    });
    result
}

/// Pairs of a unit and a mean along `axes`, so that `Σ x² / count + eps = unit² · mean`. The unit is
/// 1, unless the squares overflow or underflow: then it is the largest magnitude.
fn mean_squares<A: Element, D: Rank>(x: &Nd<A, D>, axes: &[usize], count: f64, eps: f64) -> ArrayD<(A, A)> {
    let (one, count, eps) = (A::of(1.0), A::of(count), A::of(eps));
    let squares = match axes {
        [first, rest @ ..] if axes.len() < x.shape().len() => {
            let squares = kernels::sum_squares_along(x.0.view().into_dyn(), *first);
            rest.iter().fold(squares, |sum, &axis| kernels::sum_along(sum.view(), axis))
        }
        _ => sums(&Expr::Unary(Unary::Square, x.clone()).of_shape(x.dim()), axes),
    };
    let mut means = squares.mapv(|squares| (one, squares / count + eps));
    if means.iter().all(|(_, mean)| mean.is_normal()) {
        return means;
    }
    let x = x.0.view().into_dyn();
    let largest = fold!(x.mapv(A::abs).view(), axes, Max, A::zero());
    let units = largest.mapv(|largest| if largest > A::zero() && largest.is_finite() { largest } else { one });
    let in_units = sum(&(&x / &units).mapv(|x| x * x).view(), axes);
    ndarray::Zip::from(&mut means).and(&units).and(&in_units).for_each(|of, &unit, &squares| {
        if !of.1.is_normal() {
            let root = eps.sqrt() / unit;
            *of = (unit, squares / count + root * root);
        }
    });
    means
}

/// Divides the delta equally among the elements that attain the extremum. `reached` is ½ for these
/// and 0 for the others.
fn split_ties<A: Element, D: Rank>(d: &Layer<Nd<A, D>>, reached: &Layer<Nd<A, D>>, axes: AxisList) -> Layer<Nd<A, D>> {
    let all = reduce(reached.clone(), ReduceOp::Sum, axes, ReduceForm::SUM_KEEPDIM);
    Nd::binary(Binary::StrongMul, d, &Nd::binary(Binary::Div, reached, &all))
}

/// A tensor of this shape with all elements equal to `number`.
#[track_caller]
pub(crate) fn fill<A: Element, D: Rank>(number: &Layer<A>, shape: D) -> Layer<Nd<A, D>> {
    fill_on(number, shape, None)
}

/// The same on this place.
#[track_caller]
pub(crate) fn fill_on<A: Element, D: Rank>(number: &Layer<A>, shape: D, place: Place) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Fill { shape, place, element: PhantomData }, (number.clone(),))
}

/// Conversion of a number to a tensor, on layers, weights and plain numbers.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::{Nd, NumberOps, SliceOps, concat, ops::MovementOps};
/// let (a, b) = (Weight::new(1.0_f64), Weight::new(2.0));
/// let vector = concat(0, [a.to_tensor().unsqueeze(0), b.to_tensor().unsqueeze(0)]);
/// assert_eq!(vector.predict().wait()?, Nd::from([1.0, 2.0]));
/// assert_eq!(vector.at(1).gradient(&b).predict().wait()?, 1.0);
/// # dl_core::Result::Ok(())
/// ```
pub trait NumberOps<A: Element>: Differentiable<Data = A> {
    /// The number as a tensor without axes. The inverse is [`item`](crate::SliceOps::item).
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight}; use dl_nd::{Nd, NumberOps};
    /// assert_eq!(Weight::new(2.0).to_tensor().predict().wait()?, Nd::from(2.0));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn to_tensor(&self) -> Layer<Nd<A, Ix0>> {
        fill(&self.layer(), Ix0())
    }
}

impl<X, A: Element> NumberOps<A> for X where X: Differentiable<Data = A> {}

/// `number` as a tensor with one element, which broadcasts to every shape.
#[track_caller]
pub(crate) fn number_tensor<A: Element, D: Rank>(number: &Layer<A>) -> Layer<Nd<A, D>> {
    fill(number, unit_shape())
}

#[derive(Clone)]
struct Fill<A, D> {
    shape: D,
    place: Place,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for Fill<A, D> {
    type Operands = (Layer<A>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "fill"
    }

    fn value(&self, (number,): (&A,)) -> Result<Nd<A, D>> {
        if self.place.is_some() {
            return Ok(fusion::filled_on(self.shape.clone(), *number, self.place.clone()));
        }
        if !should_defer(self.shape.size()) {
            return Ok(filled_array(self.shape.clone(), *number).into());
        }
        let number = Nd::full(unit_shape::<D>(), *number);
        Ok(Expr::Repeat(number).of_shape(self.shape.clone()))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<A>>,) {
        (Some(total(at.delta.clone())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(fill_on(along.tangents.0.as_ref()?, self.shape.clone(), self.place.clone()))
    }

    fn cost(&self, _: (&A,)) -> f64 {
        let len = self.shape.size();
        200.0 + if should_defer(len) { 0.0 } else { 0.5 * len as f64 }
    }
}

impl<A: Element, D: Rank> BuiltIn for Fill<A, D> {
    const IS_PURE: bool = true;
}
