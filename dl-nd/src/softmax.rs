//! Softmax and its logarithm, with the maximum taken off first, so that no logit is too large.

use crate::element::{Element, Rank};
use crate::movement::check_axis;
use crate::nd::Nd;
use crate::reduce::along;
use dl_core::{At, Binary, Layer, Pointwise, Primitive, Result, Unary};
use ndarray::{ArrayView1, Axis};
use std::marker::PhantomData;

#[track_caller]
pub(crate) fn softmax<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: usize) -> Layer<Nd<A, D>> {
    Layer::apply(Softmax { axis, types: PhantomData }, (x,))
}

#[track_caller]
pub(crate) fn log_softmax<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: usize) -> Layer<Nd<A, D>> {
    Layer::apply(LogSoftmax { axis, types: PhantomData }, (x,))
}

/// `m`, the largest element, and `Σ exp(x − m)`.
pub(crate) fn exp_sum<A: Element>(x: ArrayView1<'_, A>) -> (A, A) {
    let max = x.iter().fold(A::neg_infinity(), |max, &x| Binary::Max.value(max, x));
    (max, x.iter().fold(A::of(0.0), |sum, &x| sum + (x - max).exp()))
}

/// Replaces each element of each lane along `axis`, knowing what [`exp_sum`] says of the lane.
fn lanes<A: Element, D: Rank>(x: &Nd<A, D>, axis: usize, value: impl Fn(A, (A, A)) -> A) -> Result<Nd<A, D>> {
    check_axis(axis, x.shape())?;
    let mut array = x.0.to_owned();
    for mut lane in array.lanes_mut(Axis(axis)) {
        let sums = exp_sum(lane.view());
        lane.mapv_inplace(|x| value(x, sums));
    }
    Ok(array.into())
}

fn cost(len: usize) -> f64 {
    200.0 + 10.0 * len as f64
}

struct Softmax<A, D> {
    axis: usize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Softmax<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "softmax"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        lanes(x, self.axis, |x, (max, sum)| (x - max).exp() / sum)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        // d·y − y · Σ d·y
        let dy = Nd::binary(Binary::Mul, at.delta, at.output);
        let all = Nd::binary(Binary::Mul, at.output, &along(dy.clone(), self.axis, false));
        (Some(Nd::binary(Binary::Sub, &dy, &all)),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}

struct LogSoftmax<A, D> {
    axis: usize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for LogSoftmax<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "log_softmax"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        lanes(x, self.axis, |x, (max, sum)| x - max - sum.ln())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        // d − eʸ · Σ d
        let sum = along(at.delta.clone(), self.axis, false);
        let all = Nd::binary(Binary::Mul, &Nd::unary(Unary::Exp, at.output), &sum);
        (Some(Nd::binary(Binary::Sub, at.delta, &all)),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}
