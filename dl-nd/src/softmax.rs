//! Softmax and its logarithm, with the maximum taken off first, so that no logit is too large.

use crate::accurate::sum_in_turn;
use crate::axes::axis_of;
use crate::element::{Element, Rank};
use crate::nd::Nd;
use crate::pieces::{self, Lane};
use crate::program::each;
use crate::reduce::sum_along;
use dl_core::simd::vectorized;
use dl_core::{Along, At, Binary, Differentiable, Layer, Number, Pointwise, Primitive, Result, Unary};
use ndarray::{Array, ArrayView1, ArrayViewMut1, Axis};
use std::marker::PhantomData;

/// Softmax and its logarithm.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, SoftmaxOps};
/// assert_eq!(Nd::from([[0.0, 0.0]]).softmax(-1).predict().wait()?, Nd::from([[0.5, 0.5]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait SoftmaxOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// `exp(x) / Σ exp(x)` along an axis, without overflow.
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

    /// The logarithm of [`softmax`](SoftmaxOps::softmax), without overflow.
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
    Layer::apply(Softmax { axis, or_zero: false, types: PhantomData }, (x,))
}

/// The softmax, but 0 along an axis where all elements are −∞, with a gradient of 0.
#[track_caller]
pub(crate) fn softmax_or_zero<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: isize) -> Layer<Nd<A, D>> {
    Layer::apply(Softmax { axis, or_zero: true, types: PhantomData }, (x,))
}

#[track_caller]
pub(crate) fn log_softmax<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: isize) -> Layer<Nd<A, D>> {
    Layer::apply(LogSoftmax { axis, types: PhantomData }, (x,))
}

/// A multiple of the widest register: of so many elements none is computed on its own.
const ABREAST: usize = 16;

/// Takes the largest element of each lane of this length off all of its elements, and writes it down: NaN if there is one, and −∞ if there is no element.
fn take_off_largest<A: Element>(terms: &mut [A], len: usize, largest: &mut [A]) {
    if len == 0 {
        return largest.fill(A::neg_infinity());
    }
    vectorized(
        #[inline(always)]
        || {
            for (lane, largest) in terms.chunks_exact_mut(len).zip(&mut *largest) {
                let max = largest_of(lane);
                *largest = max;
                for x in lane {
                    *x = *x - max;
                }
            }
        },
    );
}

#[inline(always)]
fn largest_of<A: Element>(x: &[A]) -> A {
    let (rows, rest) = x.as_chunks::<ABREAST>();
    // once it is NaN, it stays NaN
    let larger = |largest: A, x: A| if x > largest || x.is_nan() { x } else { largest };
    // its own, and not captured: so it stays in a register
    let mut abreast = [A::neg_infinity(); ABREAST];
    abreast[..rest.len()].copy_from_slice(rest);
    for row in rows {
        for i in 0..ABREAST {
            abreast[i] = larger(abreast[i], row[i]);
        }
    }
    let mut left = ABREAST;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            abreast[i] = larger(abreast[i], abreast[left + i]);
        }
    }
    abreast[0]
}

/// Some lanes of one length, with the largest element taken off each, raised to powers of e: `exp(x − m)`, and the sums of that.
///
/// All lanes are raised in one loop, as a single one may be too short for the processor to compute many exponentials side by side.
pub(crate) struct Raised<A> {
    terms: Vec<A>,
    len: usize,
    pub(crate) largest: Vec<A>,
    pub(crate) sums: Vec<A>,
}

impl<A: Element> Raised<A> {
    pub(crate) fn of<'a>(lanes: impl ExactSizeIterator<Item = ArrayView1<'a, A>>) -> Self {
        let (mut terms, mut len) = (Vec::new(), 0);
        let mut largest = vec![A::zero(); lanes.len()];
        for x in lanes {
            if terms.is_empty() {
                len = x.len();
                terms.reserve_exact((largest.len() * len).next_multiple_of(ABREAST));
            }
            match x.as_slice() {
                Some(x) => terms.extend_from_slice(x),
                None => terms.extend(x.iter()),
            }
        }
        take_off_largest(&mut terms, len, &mut largest);
        terms.resize(terms.len().next_multiple_of(ABREAST), A::zero());
        each(Unary::Exp, &mut terms);
        let sum = |lane: usize| sum_in_turn(&terms[lane * len..][..len]);
        let sums = (0..largest.len()).map(sum).collect();
        Raised { terms, len, largest, sums }
    }

    /// The logarithms of the sums.
    pub(crate) fn ln_sums(&self) -> Vec<A> {
        let mut logarithms = self.sums.clone();
        each(Unary::Ln, &mut logarithms);
        logarithms
    }

    pub(crate) fn terms(&self, lane: usize) -> &[A] {
        &self.terms[lane * self.len..][..self.len]
    }

    /// Writes the softmax of a lane.
    pub(crate) fn softmax(&self, lane: usize, mut to: ArrayViewMut1<'_, A>) {
        let (terms, sum) = (self.terms(lane), self.sums[lane]);
        match to.as_slice_mut() {
            Some(to) => to.iter_mut().zip(terms).for_each(|(y, &term)| *y = term / sum),
            None => to.iter_mut().zip(terms).for_each(|(y, &term)| *y = term / sum),
        }
    }
}

/// `ln Σ exp(x)`; of nothing, −∞.
pub(crate) fn log_sum_exp<A: Element>(x: ArrayView1<'_, A>) -> A {
    let raised = Raised::of(std::iter::once(x));
    let max = raised.largest[0];
    if max.is_infinite() { max } else { Number::ln(raised.sums[0]) + max }
}

/// Each lane along `axis` on its own: `value` reads some lanes, of which it is told the number of the first one, and writes those of the result.
pub(crate) fn lanes<A, D>(
    x: &Nd<A, D>,
    axis: isize,
    value: impl Fn(usize, &mut [Lane<'_, A>]) + Sync,
) -> Result<Nd<A, D>>
where
    A: Element,
    D: Rank,
{
    let axis = axis_of(axis, x.shape())?;
    let mut array = Array::from_elem(x.dim(), A::of(0.0));
    let len = x.shape()[axis];
    let count = x.len() / len.max(1);
    let all = x.0.lanes(Axis(axis)).into_iter().zip(array.lanes_mut(Axis(axis)));
    pieces::lanes(all, (count, len), NANOSECONDS, value);
    Ok(array.into())
}

/// About how long the softmax takes for an element.
const NANOSECONDS: f64 = 2.5;

fn cost(len: usize) -> f64 {
    300.0 + NANOSECONDS * len as f64
}

/// The delta of what has the softmax `y`: `d·y − y · Σ d·y`.
pub(crate) fn softmax_delta<A: Element, D: Rank>(
    d: &Layer<Nd<A, D>>,
    y: &Layer<Nd<A, D>>,
    axis: isize,
) -> Layer<Nd<A, D>> {
    let dy = Nd::binary(Binary::Mul, d, y);
    let all = Nd::binary(Binary::Mul, y, &sum_along(dy.clone(), axis));
    Nd::binary(Binary::Sub, &dy, &all)
}

struct Softmax<A, D> {
    axis: isize,
    /// Whether nothing but −∞ becomes 0; else it becomes NaN.
    or_zero: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Softmax<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        "softmax"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        lanes(x, self.axis, |_, lanes| {
            let raised = Raised::of(lanes.iter().map(|(x, _)| x.view()));
            for (lane, (_, y)) in lanes.iter_mut().enumerate() {
                if !self.or_zero || raised.largest[lane] != A::neg_infinity() {
                    raised.softmax(lane, y.view_mut());
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

struct LogSoftmax<A, D> {
    axis: isize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for LogSoftmax<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        "log_softmax"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        lanes(x, self.axis, |_, lanes| {
            let raised = Raised::of(lanes.iter().map(|(x, _)| x.view()));
            let logarithms = raised.ln_sums();
            for ((x, y), (max, ln_sum)) in lanes.iter_mut().zip(raised.largest.into_iter().zip(logarithms)) {
                y.zip_mut_with(x, |y, &x| *y = x - max - ln_sum);
            }
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        // d − eʸ · Σ d
        let sum = sum_along(at.delta.clone(), self.axis);
        let all = Nd::binary(Binary::Mul, &Nd::unary(Unary::Exp, at.output), &sum);
        (Some(Nd::binary(Binary::Sub, at.delta, &all)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        // d − Σ eʸ · d
        let d = along.tangents.0.as_ref()?;
        let all = Nd::binary(Binary::Mul, &Nd::unary(Unary::Exp, along.output), d);
        Some(Nd::binary(Binary::Sub, d, &sum_along(all, self.axis)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}
