//! Softmax and log-softmax. The maximum is subtracted first, so that `exp` cannot overflow.

use crate::fusion::{RUN_LEN, add_assign, canonicalize_nan, map_in_place, sum_in_order};
use crate::kernels::{LANE_GROUP, Lane, for_each_lane};
use crate::ops::axes::axis_of;
use crate::ops::reduce::sum_keepdim;
use crate::tensor::{Element, Nd, Rank};
use dl_core::simd::vectorized;
use dl_core::{Along, At, Binary, BuiltIn, Differentiable, Layer, Number, Pointwise, Primitive, Result, Unary};
use ndarray::{Array, ArrayView1, ArrayViewMut1, Axis};
use std::marker::PhantomData;

/// Softmax and log-softmax.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, SoftmaxOps};
/// assert_eq!(Nd::from([[0.0, 0.0]]).softmax(-1).predict().wait()?, Nd::from([[0.5, 0.5]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait SoftmaxOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// `exp(x) / Σ exp(x)` along an axis, without overflow. The shape is unchanged. A negative axis
    /// counts from the last one.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SoftmaxOps};
    /// assert_eq!(Nd::from([[1e4, 1e4]]).softmax(1).predict().wait()?, Nd::from([[0.5, 0.5]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn softmax(&self, axis: isize) -> Layer<Nd<A, D>> {
        softmax(self.layer(), axis)
    }

    /// The logarithm of [`softmax`](SoftmaxOps::softmax), `x − ln Σ exp(x)`, without overflow.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SoftmaxOps};
    /// assert_eq!(Nd::from([[1e4, -1e4]]).log_softmax(1).predict().wait()?, Nd::from([[0.0, -2e4]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn log_softmax(&self, axis: isize) -> Layer<Nd<A, D>> {
        log_softmax(self.layer(), axis)
    }
}

impl<X, A: Element, D: Rank> SoftmaxOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
pub(crate) fn softmax<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: isize) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Softmax { axis, or_zero: false, types: PhantomData }, (x,))
}

/// The softmax, except that a lane of −∞ only gives 0, with a gradient of 0.
#[track_caller]
pub(crate) fn softmax_or_zero<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: isize) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Softmax { axis, or_zero: true, types: PhantomData }, (x,))
}

#[track_caller]
pub(crate) fn log_softmax<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: isize) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(LogSoftmax { axis, types: PhantomData }, (x,))
}

/// The length up to which lanes are stored as columns.
const SHORT: usize = 32;
const _: () = assert!(SHORT < RUN_LEN, "a lane this short is summed as one run");

/// The exponentials `exp(x − m)` of some lanes of one length, where `m` is the maximum of the lane,
/// and their sums.
///
/// The exponentials of all lanes are computed in one loop, as a single lane may be too short to
/// fill a SIMD register. Several short lanes are stored as columns: a register then holds one
/// element of each of many lanes, and maxima, sums and quotients are vectorised across lanes as
/// well. The bits are the same in both layouts, as each sum is computed in order.
pub(crate) struct ExpLanes<A> {
    terms: Vec<A>,
    len: usize,
    /// The number of columns, including padding, if lanes are stored as columns.
    columns: Option<usize>,
    /// The maximum of each lane (and of padding columns): NaN if the lane contains one, −∞ if it is
    /// empty.
    pub(crate) maxima: Vec<A>,
    pub(crate) sums: Vec<A>,
}

impl<A: Element> ExpLanes<A> {
    pub(crate) fn of<'a>(mut lanes: impl ExactSizeIterator<Item = ArrayView1<'a, A>>) -> Self {
        let count = lanes.len();
        let Some(first) = lanes.next() else { return ExpLanes::rows(0, 0, lanes) };
        let len = first.len();
        let lanes = std::iter::once(first).chain(lanes);
        if count >= LANE_GROUP / 2 && (1..=SHORT).contains(&len) {
            ExpLanes::columns(count, len, lanes)
        } else {
            ExpLanes::rows(count, len, lanes)
        }
    }

    fn columns<'a>(count: usize, len: usize, lanes: impl Iterator<Item = ArrayView1<'a, A>>) -> Self {
        let columns = count.next_multiple_of(LANE_GROUP);
        let mut terms = vec![A::zero(); columns * len];
        for (lane, x) in lanes.enumerate() {
            let column = terms[lane..].iter_mut().step_by(columns);
            match x.as_slice() {
                Some(x) => column.zip(x).for_each(|(to, &x)| *to = x),
                None => column.zip(x).for_each(|(to, &x)| *to = x),
            }
        }
        let mut maxima = vec![A::neg_infinity(); columns];
        let mut sums = vec![A::zero(); columns];
        vectorized(
            #[inline(always)]
            || {
                for row in terms.chunks_exact(columns) {
                    maxima.iter_mut().zip(row).for_each(|(largest, &x)| *largest = larger(*largest, x));
                }
                maxima.iter_mut().for_each(|largest| *largest = canonicalize_nan(*largest));
                for row in terms.chunks_exact_mut(columns) {
                    row.iter_mut().zip(&maxima).for_each(|(x, &largest)| *x = *x - largest);
                }
            },
        );
        map_in_place(Unary::Exp, &mut terms);
        terms.chunks_exact(columns).for_each(|row| add_assign(&mut sums, row));
        ExpLanes { terms, len, columns: Some(columns), maxima, sums }
    }

    fn rows<'a>(count: usize, len: usize, lanes: impl Iterator<Item = ArrayView1<'a, A>>) -> Self {
        let mut terms = Vec::with_capacity((count * len).next_multiple_of(LANE_GROUP));
        for x in lanes {
            match x.as_slice() {
                Some(x) => terms.extend_from_slice(x),
                None => terms.extend(x.iter()),
            }
        }
        let mut maxima = vec![A::neg_infinity(); count];
        vectorized(
            #[inline(always)]
            || {
                for (lane, largest) in terms.chunks_exact_mut(len.max(1)).zip(&mut maxima) {
                    let max = canonicalize_nan(largest_of(lane));
                    *largest = max;
                    lane.iter_mut().for_each(|x| *x = *x - max);
                }
            },
        );
        terms.resize(terms.len().next_multiple_of(LANE_GROUP), A::zero());
        map_in_place(Unary::Exp, &mut terms);
        let sums = (0..count).map(|lane| sum_in_order(&terms[lane * len..][..len])).collect();
        ExpLanes { terms, len, columns: None, maxima, sums }
    }

    /// The logarithms of the sums.
    pub(crate) fn ln_sums(&self) -> Vec<A> {
        let mut logarithms = self.sums.clone();
        map_in_place(Unary::Ln, &mut logarithms);
        logarithms
    }

    /// The softmax: each exponential divided by the sum of its lane.
    pub(crate) fn softmax(mut self) -> SoftmaxLanes<A> {
        if let Some(columns) = self.columns {
            let ExpLanes { terms, sums, .. } = &mut self;
            vectorized(
                #[inline(always)]
                || {
                    for row in terms.chunks_exact_mut(columns) {
                        row.iter_mut().zip(&*sums).for_each(|(x, &sum)| *x = *x / sum);
                    }
                },
            );
        }
        SoftmaxLanes(self)
    }
}

/// The softmax of lanes: columns have been divided by their sums, rows are divided when they are
/// written.
pub(crate) struct SoftmaxLanes<A>(ExpLanes<A>);

impl<A: Element> SoftmaxLanes<A> {
    /// Writes the softmax of one lane.
    pub(crate) fn write(&self, lane: usize, to: ArrayViewMut1<'_, A>) {
        let ExpLanes { terms, len, columns, sums, .. } = &self.0;
        match *columns {
            Some(columns) => write(to, terms[lane..].iter().step_by(columns).copied()),
            None => write(to, terms[lane * len..][..*len].iter().map(|&term| term / sums[lane])),
        }
    }
}

fn write<A>(mut to: ArrayViewMut1<'_, A>, numbers: impl Iterator<Item = A>) {
    match to.as_slice_mut() {
        Some(to) => to.iter_mut().zip(numbers).for_each(|(y, number)| *y = number),
        None => to.iter_mut().zip(numbers).for_each(|(y, number)| *y = number),
    }
}

/// The larger number; NaN if either is.
#[inline(always)]
fn larger<A: Element>(largest: A, x: A) -> A {
    if x > largest || x.is_nan() { x } else { largest }
}

#[inline(always)]
fn largest_of<A: Element>(x: &[A]) -> A {
    let (rows, rest) = x.as_chunks::<LANE_GROUP>();
    // a local, not a captured variable, so that it stays in registers
    let mut maxima = [A::neg_infinity(); LANE_GROUP];
    maxima[..rest.len()].copy_from_slice(rest);
    for row in rows {
        for i in 0..LANE_GROUP {
            maxima[i] = larger(maxima[i], row[i]);
        }
    }
    let mut left = LANE_GROUP;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            maxima[i] = larger(maxima[i], maxima[left + i]);
        }
    }
    maxima[0]
}

/// `ln Σ exp(x)`; −∞ for no elements.
pub(crate) fn log_sum_exp<A: Element>(x: ArrayView1<'_, A>) -> A {
    let exps = ExpLanes::of(std::iter::once(x));
    let max = exps.maxima[0];
    if max.is_infinite() { max } else { Number::ln(exps.sums[0]) + max }
}

/// Computes a tensor lane by lane along `axis`. `value` gets the index of a first lane and a group
/// of pairs of an input and an output lane, and writes the output lanes.
pub(crate) fn lanes<A: Element, D: Rank>(
    x: &Nd<A, D>,
    axis: isize,
    value: impl Fn(usize, &mut [Lane<'_, A>]) + Sync,
) -> Result<Nd<A, D>> {
    let axis = axis_of(axis, x.shape())?;
    let mut array = Array::from_elem(x.dim(), A::of(0.0));
    let len = x.shape()[axis];
    let count = x.len() / len.max(1);
    let all = x.0.lanes(Axis(axis)).into_iter().zip(array.lanes_mut(Axis(axis)));
    for_each_lane(all, (count, len), SOFTMAX_NANOSECONDS, value);
    Ok(array.into())
}

/// The estimated time of the softmax per element, in nanoseconds.
pub(crate) const SOFTMAX_NANOSECONDS: f64 = 2.5;

fn cost(len: usize) -> f64 {
    300.0 + SOFTMAX_NANOSECONDS * len as f64
}

/// The delta of the logits, from the delta `d` of their softmax `y`: `d·y − y · Σ d·y`.
pub(crate) fn softmax_delta<A: Element, D: Rank>(
    d: &Layer<Nd<A, D>>,
    y: &Layer<Nd<A, D>>,
    axis: isize,
) -> Layer<Nd<A, D>> {
    let dy = Nd::binary(Binary::StrongMul, d, y);
    let all = Nd::binary(Binary::StrongMul, &sum_keepdim(dy.clone(), axis), y);
    Nd::binary(Binary::Sub, &dy, &all)
}

struct Softmax<A, D> {
    axis: isize,
    /// Whether a lane of −∞ only gives 0 instead of NaN.
    or_zero: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Softmax<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "softmax"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        lanes(x, self.axis, |_, lanes| {
            let softmaxes = ExpLanes::of(lanes.iter().map(|(x, _)| x.view())).softmax();
            for (lane, (_, y)) in lanes.iter_mut().enumerate() {
                if !self.or_zero || softmaxes.0.maxima[lane] != A::neg_infinity() {
                    softmaxes.write(lane, y.view_mut());
                }
            }
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(softmax_delta(at.delta, at.output, self.axis)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}

impl<A: Element, D: Rank> BuiltIn for Softmax<A, D> {
    const IS_PURE: bool = true;
}

struct LogSoftmax<A, D> {
    axis: isize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for LogSoftmax<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "log_softmax"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        lanes(x, self.axis, |_, lanes| {
            let exps = ExpLanes::of(lanes.iter().map(|(x, _)| x.view()));
            let logarithms = exps.ln_sums();
            for ((x, y), (max, ln_sum)) in lanes.iter_mut().zip(exps.maxima.into_iter().zip(logarithms)) {
                y.zip_mut_with(x, |y, &x| *y = x - max - ln_sum);
            }
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        // d − eʸ · Σ d
        let sum = sum_keepdim(at.delta.clone(), self.axis);
        let all = Nd::binary(Binary::StrongMul, &sum, &Nd::unary(Unary::Exp, at.output));
        (Some(Nd::binary(Binary::Sub, at.delta, &all)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        // d − Σ eʸ · d
        let d = along.tangents.0.as_ref()?;
        let all = Nd::binary(Binary::StrongMul, d, &Nd::unary(Unary::Exp, along.output));
        Some(Nd::binary(Binary::Sub, d, &sum_keepdim(all, self.axis)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}

impl<A: Element, D: Rank> BuiltIn for LogSoftmax<A, D> {
    const IS_PURE: bool = true;
}
