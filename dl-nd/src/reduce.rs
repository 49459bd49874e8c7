//! Reductions: sums, means and maxima over one axis or all of them.

use crate::broadcast::{broadcast_to, sum_keeping};
use crate::element::{Element, Rank};
use crate::movement::check_axis;
use crate::nd::{Nd, single};
use dl_core::{At, Binary, BinaryLoop, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{Array, Axis};
use std::marker::PhantomData;

/// The sum or the mean of all elements.
#[track_caller]
pub(crate) fn total<A: Element, D: Rank>(x: Layer<Nd<A, D>>, mean: bool) -> Layer<A> {
    Layer::apply(Total { mean, types: PhantomData }, (x,))
}

/// What is made of the elements along an axis.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Along {
    Sum,
    Mean,
    Max,
}

/// Reduces along an axis, which stays, with length 1. `keepdim` says which method of the user's it is, for errors.
#[track_caller]
pub(crate) fn along<A: Element, D: Rank>(
    x: Layer<Nd<A, D>>,
    axis: usize,
    what: Along,
    keepdim: bool,
) -> Layer<Nd<A, D>> {
    Layer::apply(Reduction { what, axis, keepdim, types: PhantomData }, (x,))
}

/// A tensor of this shape whose elements are all the number.
#[track_caller]
pub(crate) fn fill<A: Element, D: Rank>(number: &Layer<A>, shape: D) -> Layer<Nd<A, D>> {
    Layer::apply(Fill { shape, element: PhantomData }, (number.clone(),))
}

/// A number as a tensor with one element, which broadcasts to every shape.
#[track_caller]
pub(crate) fn spread<A: Element, D: Rank>(number: &Layer<A>) -> Layer<Nd<A, D>> {
    fill(number, single())
}

struct Total<A, D> {
    mean: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Total<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = A;

    fn name(&self) -> &'static str {
        if self.mean { "mean" } else { "sum" }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<A> {
        if self.mean && x.is_empty() {
            return Err(Error::shape(format!("a tensor of shape {:?} has no elements, and no mean", x.shape())));
        }
        let sum = x.0.sum();
        Ok(if self.mean { sum / A::of(x.len() as f64) } else { sum })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (x,) = at.values;
        let each = if self.mean { &A::with_number(Binary::Div, at.delta, x.len() as f64, false) } else { at.delta };
        (Some(fill(each, x.dim())),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + 0.5 * x.len() as f64
    }
}

struct Fill<A, D> {
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for Fill<A, D> {
    type Operands = (Layer<A>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "fill"
    }

    fn value(&self, (number,): (&A,)) -> Result<Nd<A, D>> {
        Ok(Array::from_elem(self.shape.clone(), *number).into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<A>>,) {
        (Some(total(at.delta.clone(), false)),)
    }

    fn cost(&self, _: (&A,)) -> f64 {
        200.0 + 0.5 * self.shape.size() as f64
    }
}

struct Reduction<A, D> {
    what: Along,
    axis: usize,
    keepdim: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Reduction<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        match (self.what, self.keepdim) {
            (Along::Sum, false) => "sum_axis",
            (Along::Sum, true) => "sum_keepdim",
            (Along::Mean, false) => "mean_axis",
            (Along::Mean, true) => "mean_keepdim",
            (Along::Max, false) => "max_axis",
            (Along::Max, true) => "max_keepdim",
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let (axis, shape) = (self.axis, x.shape());
        check_axis(axis, shape)?;
        let count = shape[axis];
        if count == 0 && self.what != Along::Sum {
            return Err(Error::shape(format!("axis {axis} of {shape:?} has no elements")));
        }
        if self.what == Along::Max {
            return Ok(Binary::Max.each(Fold(x, Axis(axis))));
        }
        let mut sum = sum_keeping(x.0.view().into_dyn(), axis);
        if self.what == Along::Mean {
            sum.mapv_inplace(|sum| sum / A::of(count as f64));
        }
        Ok(sum.into_dimensionality().expect("the rank stays").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (x,) = at.values;
        let delta = match self.what {
            Along::Sum => broadcast_to(at.delta, x.dim()),
            Along::Mean => {
                let each = Nd::with_number(Binary::Div, at.delta, x.shape()[self.axis] as f64, false);
                broadcast_to(&each, x.dim())
            }
            Along::Max => {
                // those that reach the maximum share the delta; `above` is ½ for them and 0 for the others
                let reached = Nd::binary(Binary::Above, &at.operands.0, at.output);
                let all = along(reached.clone(), self.axis, Along::Sum, true);
                Nd::binary(Binary::Mul, at.delta, &Nd::binary(Binary::Div, &reached, &all))
            }
        };
        (Some(delta),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

/// The loop that takes the elements along an axis, which is not empty, together.
struct Fold<'a, A, D>(&'a Nd<A, D>, Axis);

impl<A: Element, D: Rank> BinaryLoop<A> for Fold<'_, A, D> {
    type Output = Nd<A, D>;

    fn run(self, value: impl Fn(A, A) -> A) -> Nd<A, D> {
        let Fold(x, axis) = self;
        let mut all = x.0.slice_axis(axis, (0..1).into()).to_owned();
        if x.0.strides()[axis.index()] == 1 {
            for (all, lane) in all.iter_mut().zip(x.0.lanes(axis)) {
                *all = lane.iter().skip(1).fold(*all, |all, &next| value(all, next));
            }
        } else {
            for next in x.0.axis_chunks_iter(axis, 1).skip(1) {
                all.zip_mut_with(&next, |all, &next| *all = value(*all, next));
            }
        }
        all.into()
    }
}
