//! Scans along an axis: cumulative products, extrema and log-sum-exps.

use crate::device::{ScanOp, common_place};
use crate::fusion::view_on;
use crate::kernels;
use crate::ops::axes::axis_of;
use crate::ops::broadcast::sum_to;
use crate::ops::index::gather;
use crate::ops::slice::{SliceOps, narrow};
use crate::ops::sort::WithIndices;
use crate::tensor::{Element, Item, Nd, Rank, check_size, compact_copy, filled_array};
use dl_core::{At, Binary, BuiltIn, Deltas, Differentiable, Layer, Pointwise, Primitive, Result, Unary};
use ndarray::{Array, ArrayView};
use std::marker::PhantomData;

/// Scans: each element of the result is a reduction of the elements up to its position. See also
/// [`cumsum`](crate::ArrangeOps::cumsum).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ScanOps};
/// let (maxima, indices) = Nd::from([2.0, 1.0, 3.0]).cummax(0);
/// assert_eq!(maxima.predict().wait()?, Nd::from([2.0, 2.0, 3.0]));
/// assert_eq!(indices.predict().wait()?, Nd::from([0, 0, 2]));
/// # dl_core::Result::Ok(())
/// ```
pub trait ScanOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The cumulative products along an axis: `yᵢ = x₀ · … · xᵢ`. The gradient is correct for
    /// elements that are 0, too.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ScanOps};
    /// assert_eq!(Nd::from([2.0, 3.0, 4.0]).cumprod(0).predict().wait()?, Nd::from([2.0, 6.0, 24.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn cumprod(&self, axis: isize) -> Layer<Nd<A, D>> {
        let nothing = Layer::constant(Nd::single(A::zero()));
        Layer::apply_built_in(
            Recurrence { axis, from_end: false, initial: A::of(1.0), of_deltas: false, rank: PhantomData },
            (self.layer(), nothing),
        )
    }

    /// The cumulative log-sum-exps along an axis: `yᵢ = ln(exp x₀ + … + exp xᵢ)`, without overflow.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ScanOps};
    /// let sums = Nd::from([0.0, 0.0, 2_f64.ln()]).logcumsumexp(0).exp().predict().wait()?;
    /// assert!((sums[2] - 4.0).abs() < 1e-12);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn logcumsumexp(&self, axis: isize) -> Layer<Nd<A, D>> {
        Layer::apply_built_in(LogCumSumExp { axis, types: PhantomData }, (self.layer(),))
    }

    /// The largest elements up to each position along an axis, and their indices. From the first
    /// NaN on the result is NaN. Of equal elements the last one is taken; the gradient flows to it.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ScanOps};
    /// assert_eq!(Nd::from([1.0, 0.0, 3.0]).cummax(0).0.predict().wait()?, Nd::from([1.0, 1.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn cummax(&self, axis: isize) -> WithIndices<A, D> {
        cumulative_extremum(self.layer(), axis, true)
    }

    /// The smallest elements up to each position along an axis, and their indices. See
    /// [`cummax`](ScanOps::cummax).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ScanOps};
    /// assert_eq!(Nd::from([1.0, 0.0, 3.0]).cummin(0).0.predict().wait()?, Nd::from([1.0, 0.0, 0.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn cummin(&self, axis: isize) -> WithIndices<A, D> {
        cumulative_extremum(self.layer(), axis, false)
    }
}

impl<X, A: Element, D: Rank> ScanOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
fn cumulative_extremum<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: isize, largest: bool) -> WithIndices<A, D> {
    let indices = Layer::apply_built_in(CumulativeIndices { axis, largest, types: PhantomData }, (x.clone(),));
    (gather(axis, x, indices.clone()), indices)
}

/// The elements of an axis moved by one position, towards its end or its start; `fill` takes the
/// free place.
#[track_caller]
fn shifted<A: Element, D: Rank>(
    x: &Layer<Nd<A, D>>,
    shape: &[usize],
    axis: usize,
    to_end: bool,
    fill: A,
) -> Layer<Nd<A, D>> {
    let mut widths = vec![(0, 0); shape.len()];
    widths[axis] = if to_end { (1, 0) } else { (0, 1) };
    narrow(x, axis, usize::from(!to_end), shape[axis] - 1).pad(&widths, fill)
}

/// (a, b) ↦ s, where `sᵢ = aᵢ · sᵢ₋₁ + bᵢ` along an axis and the state before the first element is
/// `initial`. `b` broadcasts to the shape of `a`. The pullback is a recurrence in the opposite
/// direction.
#[derive(Clone)]
struct Recurrence<A, D> {
    axis: isize,
    /// Whether to start at the last element.
    from_end: bool,
    initial: A,
    /// Whether the states are deltas: a state of exactly 0 then annihilates, whatever the factor.
    of_deltas: bool,
    rank: PhantomData<D>,
}

impl<A: Element, D: Rank> Recurrence<A, D> {
    fn of_deltas(axis: isize, from_end: bool) -> Self {
        Recurrence { axis, from_end, initial: A::zero(), of_deltas: true, rank: PhantomData }
    }
}

impl<A: Element, D: Rank> Primitive for Recurrence<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "cumprod"
    }

    fn value(&self, (a, b): (&Nd<A, D>, &Nd<A, D>)) -> Result<Nd<A, D>> {
        let axis = axis_of(self.axis, a.shape())?;
        if let Some(device) = common_place([(a.0.device(), a.len()), (b.0.device(), b.len())])? {
            let op = match self.of_deltas {
                true => ScanOp::Delta,
                false => ScanOp::Product { from_one: self.initial != A::zero() },
            };
            let with = view_on(device, b)?.broadcast(a.shape());
            return view_on(device, a)?.scan(op, Some(with), axis, self.from_end).map(Nd::from_view);
        }
        let mut states = compact_copy(b.0.broadcast(a.dim()).expect("it broadcasts"));
        scan_array(
            a.view(),
            &mut states,
            axis,
            self.from_end,
            2.0,
            (wide(self.initial), ()),
            // in `f64`, which a product of many `f32` rarely underflows
            #[inline(always)]
            |_, a: A, to: &mut A, state: &mut f64, (): &mut ()| {
                let a = wide(a);
                *state = wide(*to) + if self.of_deltas { Binary::StrongMul.value(*state, a) } else { a * *state };
                *to = A::of(*state);
            },
        );
        Ok(states.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let shape = at.values.0.shape();
        let axis = axis_of(self.axis, shape).expect("the axis was checked");
        if at.value.is_empty() {
            return (Some(at.delta.clone()), Some(sum_to(at.delta.clone(), shape, at.values.1.dim())));
        }
        let next = shifted(&at.operands.0, shape, axis, self.from_end, A::zero());
        let sums = Layer::apply_built_in(Recurrence::of_deltas(self.axis, !self.from_end), (next, at.delta.clone()));
        let before = shifted(at.output, shape, axis, !self.from_end, self.initial);
        let product = if self.of_deltas { Binary::BothStrongMul } else { Binary::StrongMul };
        (Some(Nd::binary(product, &sums, &before)), Some(sum_to(sums, shape, at.values.1.dim())))
    }

    fn cost(&self, (a, _): (&Nd<A, D>, &Nd<A, D>)) -> f64 {
        200.0 + a.nanoseconds_to_compute() + 2.0 * a.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for Recurrence<A, D> {
    const IS_PURE: bool = true;
}

#[derive(Clone)]
struct LogCumSumExp<A, D> {
    axis: isize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for LogCumSumExp<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "logcumsumexp"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let axis = axis_of(self.axis, x.shape())?;
        if let Some(view) = x.0.on_device()? {
            return view.scan(ScanOp::LogSumExp, None, axis, false).map(Nd::from_view);
        }
        let mut sums = filled_array(x.dim(), A::zero());
        scan_array(
            x.view(),
            &mut sums,
            axis,
            false,
            20.0,
            (A::neg_infinity(), A::zero()),
            #[inline(always)]
            |_, x, to: &mut A, sum: &mut A, excess: &mut A| {
                (*sum, *excess) = log_add_exp(*sum, *excess, x);
                *to = *sum;
            },
        );
        Ok(sums.into())
    }

    /// `exp(xᵢ − yᵢ) · λᵢ` with the recurrence `λᵢ = dᵢ + exp(yᵢ − yᵢ₊₁) · λᵢ₊₁`, whose factors are at
    /// most 1. Infinities are replaced by the largest numbers, whose differences are not NaN.
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let shape = at.values.0.shape();
        let axis = axis_of(self.axis, shape).expect("the axis was checked");
        if at.value.is_empty() {
            return (Some(at.delta.clone()),);
        }
        let largest = A::max_value().to_f64().expect("a number");
        let [x, y] = [&at.operands.0, at.output].map(|x| x.clamp(-largest, largest));
        let part = |first: usize| narrow(&y, axis, first, shape[axis] - 1);
        let mut widths = vec![(0, 0); shape.len()];
        widths[axis].1 = 1;
        let factors = Nd::binary(Binary::Sub, &part(0), &part(1)).exp().pad(&widths, A::zero());
        let sums = Layer::apply_built_in(Recurrence::of_deltas(self.axis, true), (factors, at.delta.clone()));
        (Some(Nd::binary(Binary::StrongMul, &sums, &Nd::binary(Binary::Sub, &x, &y).exp())),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_compute() + 20.0 * x.len() as f64
    }
}

/// `ln (exp(sum − excess) + exp(x))` and the amount by which rounding exceeds it. Without the excess, a
/// long sum would stop to grow.
#[inline(always)]
fn log_add_exp<A: Element>(sum: A, excess: A, x: A) -> (A, A) {
    let (high, low, excess) = if sum >= x { (sum, x, excess) } else { (x, sum, A::zero()) };
    let rise = Unary::Softplus.value(low - high) - excess;
    let new = high + rise;
    if new.is_finite() { (new, (new - high) - rise) } else { (Binary::LogAddExp.value(sum, x), A::zero()) }
}

impl<A: Element, D: Rank> BuiltIn for LogCumSumExp<A, D> {
    const IS_PURE: bool = true;
}

/// The indices of the extrema up to each position.
#[derive(Clone)]
struct CumulativeIndices<A, D> {
    axis: isize,
    largest: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for CumulativeIndices<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<usize, D>;

    fn name(&self) -> &'static str {
        if self.largest { "cummax" } else { "cummin" }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<usize, D>> {
        let axis = axis_of(self.axis, x.shape())?;
        check_size::<usize>(x.shape())?;
        if let Some(view) = x.0.on_device()? {
            let op = ScanOp::ExtremeSoFar { largest: self.largest };
            return view.scan(op, None, axis, false).map(Nd::from_view);
        }
        let mut indices = filled_array(x.dim(), 0);
        // the extremum so far and its index
        let extreme = if self.largest { A::neg_infinity() } else { A::infinity() };
        scan_array(
            x.view(),
            &mut indices,
            axis,
            false,
            1.0,
            (extreme, 0),
            #[inline(always)]
            |i, x: A, to: &mut usize, best: &mut A, index: &mut usize| {
                let beats = (if self.largest { x >= *best } else { x <= *best }) | x.is_nan();
                (*best, *index) = if beats { (x, i) } else { (*best, *index) };
                *to = *index;
            },
        );
        Ok(indices.into())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_compute() + x.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for CumulativeIndices<A, D> {
    const IS_PURE: bool = true;
}

#[inline(always)]
fn wide<A: Element>(x: A) -> f64 {
    x.to_f64().expect("a number")
}

/// [`kernels::scan`] of an array.
fn scan_array<A: Item, B: Item, D: Rank, S: Copy + Sync, T: Copy + Sync>(
    x: ArrayView<'_, A, D>,
    y: &mut Array<B, D>,
    axis: usize,
    from_end: bool,
    nanoseconds: f64,
    initial: (S, T),
    step: impl Fn(usize, A, &mut B, &mut S, &mut T) + Sync,
) {
    let shape = kernels::around(x.shape(), axis);
    let x = x.as_standard_layout();
    let elements = (x.as_slice().expect("in row-major order"), y.as_slice_mut().expect("in row-major order"));
    kernels::scan(elements, shape, from_end, nanoseconds, initial, step);
}
