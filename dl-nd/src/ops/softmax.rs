//! Softmax and log-softmax. The maximum is subtracted first, so that `exp` cannot overflow.

use crate::fusion::{RUN_LEN, add_assign, canonicalize_nan, combine_chunk_sums, map_in_place, sums_in_order};
use crate::kernels::{LANE_GROUP, Lane, around, for_each_lane, larger, largest_of};
use crate::ops::axes::axis_of;
use crate::ops::exps_on_device::ExpsOnDevice;
use crate::ops::pointwise::binary;
use crate::ops::reduce::sum_keepdim;
use crate::tensor::{Element, Nd, Rank};
use dl_core::simd::vectorized;
use dl_core::{
    Along, At, Binary, BuiltIn, Differentiable, Layer, Number, Pointwise, Primitive, Result, Unary, buffers, parallel,
};
use ndarray::{Array, ArrayView1, ArrayViewMut1, ArrayViewMut3, Axis};
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
        ExpLanes::of_columns(terms, len, columns)
    }

    /// Lanes of this length from the rows of a matrix of which they are the columns.
    fn of_rows<'a>(len: usize, width: usize, rows: impl Iterator<Item = &'a [A]>) -> Self {
        let columns = width.next_multiple_of(LANE_GROUP);
        let mut terms = vec![A::zero(); columns * len];
        terms.chunks_exact_mut(columns).zip(rows).for_each(|(to, row)| to[..width].copy_from_slice(row));
        ExpLanes::of_columns(terms, len, columns)
    }

    fn of_columns(mut terms: Vec<A>, len: usize, columns: usize) -> Self {
        let mut maxima = vec![A::neg_infinity(); columns];
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
        let sums = sums_of_columns(&terms, len, columns);
        ExpLanes { terms, len, columns: Some(columns), maxima, sums }
    }

    fn rows<'a>(count: usize, len: usize, lanes: impl Iterator<Item = ArrayView1<'a, A>>) -> Self {
        let mut terms = Vec::with_capacity((count * len).next_multiple_of(LANE_GROUP));
        let mut maxima = Vec::with_capacity(count);
        for x in lanes {
            let copy = if x.as_slice().is_none() { x.to_vec() } else { Vec::new() };
            let x = x.to_slice().unwrap_or(&copy);
            vectorized(
                #[inline(always)]
                || {
                    let max = canonicalize_nan(largest_of(x));
                    maxima.push(max);
                    terms.extend(x.iter().map(
                        #[inline(always)]
                        |&x| x - max,
                    ));
                },
            );
        }
        terms.resize(terms.len().next_multiple_of(LANE_GROUP), A::zero());
        map_in_place(Unary::Exp, &mut terms);
        let mut sums = vec![A::zero(); count];
        sums_in_order(&terms[..count * len], len, &mut sums);
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

/// The sum of each column, with the bits of [`sums_in_order`].
fn sums_of_columns<A: Element>(terms: &[A], len: usize, columns: usize) -> Vec<A> {
    let mut runs = vec![A::zero(); columns * len.div_ceil(RUN_LEN)];
    for (run, sums) in terms.chunks(columns * RUN_LEN).zip(runs.chunks_exact_mut(columns)) {
        run.chunks_exact(columns).for_each(|row| add_assign(sums, row));
    }
    if len <= RUN_LEN {
        return runs;
    }
    let sum = |column: usize| combine_chunk_sums(runs[column..].iter().step_by(columns).copied(), RUN_LEN, len);
    (0..columns).map(sum).collect()
}

fn write<A>(mut to: ArrayViewMut1<'_, A>, numbers: impl Iterator<Item = A>) {
    match to.as_slice_mut() {
        Some(to) => to.iter_mut().zip(numbers).for_each(|(y, number)| *y = number),
        None => to.iter_mut().zip(numbers).for_each(|(y, number)| *y = number),
    }
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
    let elements = buffers::take_filled(x.len());
    let mut array = Array::from_shape_vec(x.dim(), elements).expect("as many elements");
    let len = x.shape()[axis];
    let count = x.len() / len.max(1);
    let all = x.0.lanes(Axis(axis)).into_iter().zip(array.lanes_mut(Axis(axis)));
    for_each_lane(all, (count, len), SOFTMAX_NANOSECONDS, value);
    Ok(array.into())
}

/// Computes a tensor in row-major order along an axis that is not the last one, some columns at a
/// time. `value` gets the exponentials of lanes, the rows of these columns, and those of the result.
/// `None` for another layout, or for few elements.
fn by_columns<A: Element, D: Rank>(
    x: &Nd<A, D>,
    axis: isize,
    value: impl Fn(ExpLanes<A>, &mut dyn Iterator<Item = (&[A], &mut [A])>) + Sync,
) -> Result<Option<Nd<A, D>>> {
    let [before, len, after] = around(x.shape(), axis_of(axis, x.shape())?);
    let Some(elements) = x.0.as_slice().filter(|_| after >= LANE_GROUP && len > 1 && len * after >= MIN_COLUMNS_LEN)
    else {
        return Ok(None);
    };
    let mut result = buffers::take_filled(elements.len());
    let width = (COLUMNS_LEN / len).clamp(LANE_GROUP, 512) / LANE_GROUP * LANE_GROUP;
    let mut blocks = ArrayViewMut3::from_shape([before, len, after], &mut result).expect("as many elements");
    let mut parts = Vec::new();
    for (block, mut rest) in blocks.outer_iter_mut().enumerate() {
        while rest.ncols() > 0 {
            let (column, now) = (after - rest.ncols(), width.min(rest.ncols()));
            let (to, right) = rest.split_at(Axis(1), now);
            parts.push((block * len * after + column, to));
            rest = right;
        }
    }
    let nanoseconds = SOFTMAX_NANOSECONDS * (len * width.min(after)) as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |_, (first, to)| {
        let width = to.ncols();
        let rows = || elements[*first..].chunks(after).take(len).map(|row| &row[..width]);
        let exps = ExpLanes::of_rows(len, width, rows());
        let to = to.outer_iter_mut().map(|row| row.into_slice().expect("contiguous rows"));
        value(exps, &mut rows().zip(to));
    });
    Ok(Some(Nd::from_elements(x.dim(), result)))
}

/// Fewer elements are computed lane by lane.
const MIN_COLUMNS_LEN: usize = 2048;
/// The number of elements of some columns that are computed together. They stay in L2.
const COLUMNS_LEN: usize = 1 << 17;

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

#[derive(Clone)]
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
        if x.0.device().is_some() {
            let exps = ExpsOnDevice::of(x, axis_of(self.axis, x.shape())?)?;
            return if self.or_zero { exps.softmax_or_zero() } else { exps.softmax() };
        }
        let columns = by_columns(x, self.axis, |exps, rows| {
            let SoftmaxLanes(ExpLanes { terms, maxima, .. }) = exps.softmax();
            for ((_, to), terms) in rows.zip(terms.chunks_exact(maxima.len())) {
                to.copy_from_slice(&terms[..to.len()]);
                if self.or_zero {
                    let hidden = to.iter_mut().zip(&maxima).filter(|(_, max)| **max == A::neg_infinity());
                    hidden.for_each(|(to, _)| *to = A::zero());
                }
            }
        })?;
        if let Some(columns) = columns {
            return Ok(columns);
        }
        lanes(x, self.axis, |_, lanes| {
            let softmaxes = ExpLanes::of(lanes.iter().map(|(x, _)| x.view())).softmax();
            for (lane, (_, y)) in lanes.iter_mut().enumerate() {
                match self.or_zero && softmaxes.0.maxima[lane] == A::neg_infinity() {
                    true => y.fill(A::zero()),
                    false => softmaxes.write(lane, y.view_mut()),
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

    fn is_by_rows(&self, _: &[bool], (x,): (&Nd<A, D>,), _: &Nd<A, D>) -> bool {
        axis_of(self.axis, x.shape()).is_ok_and(|axis| axis > 0)
    }
}

#[derive(Clone)]
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
        if x.0.device().is_some() {
            let exps = ExpsOnDevice::of(x, axis_of(self.axis, x.shape())?)?;
            return binary(Binary::Sub, &binary(Binary::Sub, x, &exps.maxima)?, &exps.ln_sums()?);
        }
        let columns = by_columns(x, self.axis, |exps, rows| {
            let logarithms = exps.ln_sums();
            for (x, to) in rows {
                for ((y, &x), (&max, &ln_sum)) in to.iter_mut().zip(x).zip(exps.maxima.iter().zip(&logarithms)) {
                    *y = x - max - ln_sum;
                }
            }
        })?;
        if let Some(columns) = columns {
            return Ok(columns);
        }
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

    fn is_by_rows(&self, _: &[bool], (x,): (&Nd<A, D>,), _: &Nd<A, D>) -> bool {
        axis_of(self.axis, x.shape()).is_ok_and(|axis| axis > 0)
    }
}
