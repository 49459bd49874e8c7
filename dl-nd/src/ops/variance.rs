//! Variances, standard deviations and p-norms, and the deviations from a mean.

use crate::device::{Comparison, Instruction, Program, View};
use crate::kernels;
use crate::ops::axes::{Axes, AxisList};
use crate::ops::invalid::invalid;
use crate::ops::pointwise::binary;
use crate::ops::reduce::{Reduce, ReduceForm, ReduceOp, ReduceOutput, reduce};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Along, At, Binary, BuiltIn, Differentiable, Error, Layer, Pointwise, Primitive, Result, Unary};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

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
fn spread<A: Element, D: Rank, O: ReduceOutput<A, D> + Pointwise>(
    x: Layer<Nd<A, D>>,
    op: ReduceOp,
    axes: AxisList,
    form: ReduceForm,
) -> Layer<O> {
    spread_of(&centered(form.name, x.clone(), axes.clone()), x, op, axes, form)
}

/// A reduction of the deviations of `x`.
#[track_caller]
pub(crate) fn spread_of<A: Element, D: Rank, O: ReduceOutput<A, D> + Pointwise>(
    deviations: &Layer<Nd<A, D>>,
    x: Layer<Nd<A, D>>,
    op: ReduceOp,
    axes: AxisList,
    form: ReduceForm,
) -> Layer<O> {
    let spread = Spread { reduce: Reduce::new(op, axes.clone(), form), center: Center::new(form.name, axes, true) };
    Layer::apply_built_in(spread, (deviations.clone(), x))
}

/// `x − mean` along `axes`; where a deviation overflows, all of this reduction in a larger unit. So
/// their ratios are right.
#[track_caller]
pub(crate) fn centered<A: Element, D: Rank>(name: &'static str, x: Layer<Nd<A, D>>, axes: AxisList) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Center::new(name, axes, true), (x,))
}

/// A tensor minus its mean. The mean is rounded to a multiple of its last digit, which may be more
/// than all deviations from it. The mean of the rounded deviations is that error, so it is
/// subtracted as well.
#[derive(Clone)]
struct Center<A: Element, D: Rank> {
    mean: Reduce<A, D, Nd<A, D>>,
    axes: AxisList,
    /// Whether deviations that overflow are in units of 4. Their variance is so large that any
    /// `eps` is less than its last digit.
    in_units: bool,
}

/// Whether a deviation has overflowed in this process. Until then no rule looks for units.
static HAVE_OVERFLOWED: AtomicBool = AtomicBool::new(false);

/// Deviations, and the unit of each reduction unless all are 1.
type InUnits<A, D> = (Nd<A, D>, Option<Nd<A, D>>);

impl<A: Element, D: Rank> Center<A, D> {
    fn new(name: &'static str, axes: AxisList, in_units: bool) -> Self {
        let mean = Reduce::new(ReduceOp::Mean, axes.clone(), ReduceForm::of(name, true));
        Center { mean, axes, in_units }
    }

    /// The deviations, and the mean of those from the rounded mean.
    fn corrected(&self, x: &Nd<A, D>) -> Result<[Nd<A, D>; 2]> {
        let rough = binary(Binary::Sub, x, &self.mean.value((x,))?)?;
        let rest = self.mean.value((&rough,))?;
        Ok([binary(Binary::Sub, &rough, &rest)?, rest])
    }

    /// The deviations, and the unit of each reduction if some overflow.
    fn deviations(&self, x: &Nd<A, D>) -> Result<InUnits<A, D>> {
        let [deviations, rest] = self.corrected(x)?;
        if x.0.device().is_some() {
            return Ok((deviations, None)); // no look at the elements
        }
        // half of the last digit of the largest number: less makes no finite number infinite
        let digit = A::max_value() * A::epsilon() / A::of(4.0);
        if rest.0.iter().all(|rest| rest.abs() < digit) {
            return Ok((deviations, None));
        }
        let axes = self.axes.of(x.shape())?;
        let largest = |x: &Nd<A, D>| {
            let magnitudes = x.0.mapv(A::abs).into_dyn();
            kernels::fold_axes(magnitudes.view(), &axes, A::zero(), |a, b| Binary::Max.value(a, b))
        };
        let (one, four) = (A::of(1.0), A::of(4.0));
        let [quarters, _] = self.corrected(&binary(Binary::Div, x, &Nd::single(four))?)?;
        // the factor of the quarters; 0 keeps the deviations
        let mut factors = largest(&deviations);
        factors.zip_mut_with(&largest(&quarters), |of, &quarter| {
            *of = match of.is_finite() {
                true => A::zero(),
                false if quarter > A::max_value() / four => one,
                false => four,
            };
        });
        let each = factors.broadcast(x.shape()).expect("the reduced axes have length 1");
        let elements = deviations.0.iter().zip(quarters.0.iter()).zip(&each);
        let elements = elements.map(|((&x, &quarter), &factor)| if factor == A::zero() { x } else { quarter * factor });
        let deviations = Nd::from_elements(x.dim(), elements.collect());
        if factors.iter().all(|&factor| factor != one) {
            return Ok((deviations, None));
        }
        HAVE_OVERFLOWED.store(true, Ordering::Relaxed);
        let units = factors.mapv_into(|factor| if factor == one { four } else { one });
        Ok((deviations, Some(ReduceOutput::<A, D>::from_reduced(units, &axes, true))))
    }

    /// The units of the deviations of `x`, which were computed before in this pass.
    fn units(&self, x: &Nd<A, D>) -> Option<Nd<A, D>> {
        let may_be = self.in_units && x.0.device().is_none() && HAVE_OVERFLOWED.load(Ordering::Relaxed);
        if may_be { self.deviations(x).expect("the axes were checked").1 } else { None }
    }

    /// The deviations of a delta or a tangent: a linear function.
    fn of_delta(&self, delta: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
        Layer::apply_built_in(Center { in_units: false, ..self.clone() }, (delta.clone(),))
    }

    /// The derivative at `x` for a delta or a tangent.
    fn derivative(&self, x: &Nd<A, D>, delta: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
        match self.units(x) {
            None => self.of_delta(delta),
            Some(units) => Nd::binary(Binary::Div, &self.of_delta(delta), &Layer::constant(units)),
        }
    }
}

impl<A: Element, D: Rank> Primitive for Center<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.mean.name()
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        match self.deviations(x)? {
            (deviations, Some(units)) if !self.in_units => binary(Binary::Mul, &deviations, &units),
            (deviations, _) => Ok(deviations),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(self.derivative(at.values.0, at.delta)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(self.derivative(along.values.0, along.tangents.0.as_ref()?))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        2.0 * self.mean.cost((x,))
    }
}

impl<A: Element, D: Rank> BuiltIn for Center<A, D> {
    const IS_PURE: bool = true;
}

/// A reduction of the first operand, the deviations of the second one.
#[derive(Clone)]
struct Spread<A: Element, D: Rank, O> {
    reduce: Reduce<A, D, O>,
    center: Center<A, D>,
}

impl<A: Element, D: Rank, O: ReduceOutput<A, D> + Pointwise> Primitive for Spread<A, D, O> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = O;

    fn name(&self) -> &'static str {
        self.reduce.name()
    }

    fn value(&self, (deviations, x): (&Nd<A, D>, &Nd<A, D>)) -> Result<O> {
        match self.center.units(x) {
            None => self.reduce.value((deviations,)),
            Some(units) => self.reduce.value_in_units(deviations, units),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, D>>>) {
        let operands = &(at.operands.0.clone(),);
        let Some(units) = self.center.units(at.values.1) else {
            let of_deviations =
                At { operands, values: (at.values.0,), output: at.output, value: at.value, delta: at.delta };
            return (self.reduce.pullback(&of_deviations).0, None);
        };
        // the slope of a standard deviation is that of the same in another unit
        let output = &Layer::apply_built_in(self.reduce.clone(), operands.clone());
        let (delta,) =
            self.reduce.pullback(&At { operands, values: (at.values.0,), output, value: at.value, delta: at.delta });
        let delta = delta.map(|delta| self.center.of_delta(&delta));
        let delta = delta.map(|delta| match self.reduce.is_root() {
            true => delta,
            false => Nd::binary(Binary::Mul, &delta, &Layer::constant(units)),
        });
        (None, delta)
    }

    fn cost(&self, (deviations, _): (&Nd<A, D>, &Nd<A, D>)) -> f64 {
        self.reduce.cost((deviations,))
    }
}

impl<A: Element, D: Rank, O: ReduceOutput<A, D> + Pointwise> BuiltIn for Spread<A, D, O> {
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

/// x ↦ the unit of each reduction in which its `p`-norm is computed, a constant: 1, unless the
/// `p`-th power of the largest magnitude might overflow or underflow. The norm of `x` is the unit
/// times that of `x / unit`.
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
        if let Some(view) = x.0.on_device()? {
            return norm_unit_on_device::<A>(view, &axes, [low, high]).map(Nd::from_view);
        }
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

/// The units on a device, where a comparison with NaN is false as on the host.
fn norm_unit_on_device<A: Element>(x: View, axes: &[usize], [low, high]: [A; 2]) -> Result<View> {
    let (device, mut sizes) = (x.device().clone(), Program::new(A::ELEMENT));
    let (shape, of) = (x.shape.clone(), sizes.load(x));
    sizes.push(Instruction::Unary(Unary::Abs, of));
    let largest = sizes.run(&device, A::ELEMENT, &shape)?.fold_axes(Binary::Max, axes, 0.0)?;
    let (shape, mut program) = (largest.shape.clone(), Program::new(A::ELEMENT));
    let kept_within = |program: &mut Program, x: usize, [low, high]: [A; 2]| {
        let [low, high] = [low, high].map(|bound| program.number(bound.device_number()));
        let is_above = program.compare(Comparison::GreaterEqual, x, low);
        let x = program.select(is_above, x, low);
        let is_below = program.compare(Comparison::LessEqual, x, high);
        program.select(is_below, x, high)
    };
    let largest = program.load(largest);
    let largest = kept_within(&mut program, largest, [A::min_positive_value(), A::max_value()]);
    let rest = kept_within(&mut program, largest, [low, high]);
    program.binary(Binary::Div, largest, rest);
    program.run(&device, A::ELEMENT, &shape)
}
