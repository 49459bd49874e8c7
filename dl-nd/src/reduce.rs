//! Reductions: sums, means and maxima over one axis or all of them.

use crate::broadcast::{broadcast_to, sum_keeping};
use crate::element::{Element, Rank};
use crate::movement::check_axis;
use crate::nd::{Nd, single};
use dl_core::{At, Binary, BinaryLoop, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{Array, Axis};
use std::marker::PhantomData;

/// The sum or the mean of all elements.
#[track_caller]
pub(crate) fn total<A: Element, D: Rank>(x: Layer<Nd<A, D>>, mean: bool) -> Layer<A> {
    Layer::apply(Total { mean, types: PhantomData }, (x,))
}

/// The sum or the mean over an axis, which stays, with length 1.
#[track_caller]
pub(crate) fn along<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: usize, mean: bool) -> Layer<Nd<A, D>> {
    Layer::apply(Along { axis, mean, types: PhantomData }, (x,))
}

/// The maximum over an axis, which stays, with length 1.
#[track_caller]
pub(crate) fn max_along<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: usize) -> Layer<Nd<A, D>> {
    Layer::apply(MaxAlong { axis, types: PhantomData }, (x,))
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

fn check_mean(mean: bool, count: usize, shape: &[usize]) -> Result<()> {
    if mean && count == 0 {
        return Err(Error::shape(format!("the mean of no elements, in a tensor of shape {shape:?}")));
    }
    Ok(())
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
        check_mean(self.mean, x.len(), x.shape())?;
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

struct Along<A, D> {
    axis: usize,
    mean: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Along<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        if self.mean { "mean_axis" } else { "sum_axis" }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        check_axis(self.axis, x.shape())?;
        let count = x.shape()[self.axis];
        check_mean(self.mean, count, x.shape())?;
        let mut sum = sum_keeping(x.0.view().into_dyn(), self.axis);
        if self.mean {
            sum.mapv_inplace(|sum| sum / A::of(count as f64));
        }
        Ok(sum.into_dimensionality().expect("the rank stays").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (x,) = at.values;
        let each = if self.mean {
            &Nd::with_number(Binary::Div, at.delta, x.shape()[self.axis] as f64, false)
        } else {
            at.delta
        };
        (Some(broadcast_to(each, x.dim())),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

struct MaxAlong<A, D> {
    axis: usize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for MaxAlong<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "max_axis"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        struct Fold<'a, A, D>(&'a Nd<A, D>, Axis);

        impl<A: Element, D: Rank> BinaryLoop<A> for Fold<'_, A, D> {
            type Output = Nd<A, D>;

            fn run(self, value: impl Fn(A, A) -> A) -> Nd<A, D> {
                let Fold(x, axis) = self;
                let mut max = x.0.slice_axis(axis, (0..1).into()).to_owned();
                for next in x.0.axis_chunks_iter(axis, 1).skip(1) {
                    max.zip_mut_with(&next, |max, &next| *max = value(*max, next));
                }
                max.into()
            }
        }

        check_axis(self.axis, x.shape())?;
        if x.shape()[self.axis] == 0 {
            return Err(Error::shape(format!(
                "the maximum of no elements, along axis {} of {:?}",
                self.axis,
                x.shape()
            )));
        }
        Ok(Binary::Max.each(Fold(x, Axis(self.axis))))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        // those that reach the maximum share the delta; `above` is ½ for them and 0 for the others
        let reached = Nd::binary(Binary::Above, &at.operands.0, at.output);
        let share = Nd::binary(Binary::Div, &reached, &along(reached.layer(), self.axis, false));
        (Some(Nd::binary(Binary::Mul, at.delta, &share)),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + 2.0 * x.len() as f64
    }
}
