//! Broadcasting: which shape two operands have together, and how a delta finds back to the shape of
//! its operand.

use crate::accurate::sum_along;
use crate::element::{Element, Rank};
use crate::formula::{Operation, is_worth_writing_down};
use crate::nd::{Nd, check_size};
use crate::program;
use dl_core::{Along, At, Error, Layer, Primitive, Result};
use ndarray::{Array, Axis};
use std::marker::PhantomData;

/// The common shape of two operands, by NumPy's rule.
pub(crate) fn broadcast_shape<D: Rank>(a: &[usize], b: &[usize]) -> Result<D> {
    common_shape(a, b).map_err(|axis| {
        Error::shape(format!(
            "shapes {a:?} and {b:?} do not broadcast: axis -{axis} (counted from the end) has length {} in the left one and {} \
             in the right one",
            a[a.len() - axis],
            b[b.len() - axis],
        ))
    })
}

/// The same; else the axis along which they do not go together, counted from the end, where the
/// last one is 1.
pub(crate) fn common_shape<D: Rank>(a: &[usize], b: &[usize]) -> std::result::Result<D, usize> {
    let rank = a.len().max(b.len());
    let mut shape = D::zeros(rank);
    let along = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    for (axis, length) in shape.slice_mut().iter_mut().enumerate() {
        *length = match (along(a, axis), along(b, axis)) {
            (a, b) if a == b => a,
            (1, other) | (other, 1) => other,
            _ => return Err(rank - axis),
        };
    }
    Ok(shape)
}

/// How many elements tensors of these shapes have together. A number of its own type: the shapes
/// may not fit.
pub(crate) fn common_len(shapes: &[&[usize]]) -> f64 {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or_default();
    let along = |axis: usize| shapes.iter().filter_map(move |shape| Some(shape[shape.len().checked_sub(axis)?]));
    (1..=rank).map(|axis| along(axis).find(|&length| length != 1).unwrap_or(1) as f64).product()
}

/// A delta that has the shape of the result, summed to the shape of the operand.
pub(crate) fn sum_to<A: Element, D: Rank>(delta: Layer<Nd<A, D>>, from: &[usize], to: D) -> Layer<Nd<A, D>> {
    if from == to.slice() { delta } else { Layer::apply(SumTo { shape: to, element: PhantomData }, (delta,)) }
}

/// A tensor repeated to a larger shape.
#[track_caller]
pub(crate) fn broadcast_to<A: Element, D: Rank>(x: &Layer<Nd<A, D>>, shape: D) -> Layer<Nd<A, D>> {
    Layer::apply(BroadcastTo { shape, element: PhantomData }, (x.clone(),))
}

/// Sums over the axes that broadcasting has added or repeated.
struct SumTo<A, D> {
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for SumTo<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        "sum_to"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let mut sum = x.array().into_dyn();
        while sum.ndim() > self.shape.ndim() {
            sum = sum_along(sum.view(), 0).index_axis_move(Axis(0), 0).into_shared();
        }
        for (axis, &length) in self.shape.slice().iter().enumerate() {
            if length == 1 && sum.shape()[axis] != 1 {
                sum = sum_along(sum.view(), axis).into_shared();
            }
        }
        Ok(Nd::from(sum.into_dimensionality().expect("the rank of the operand")))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(broadcast_to(at.delta, at.values.0.dim())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(Layer::apply(SumTo { shape: self.shape.clone(), element: PhantomData }, (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

struct BroadcastTo<A, D> {
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for BroadcastTo<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        "expand"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let shape = self.shape.slice();
        match common_shape::<D>(x.shape(), shape) {
            Ok(common) if common.slice() == shape => {
                check_size::<A>(shape)?;
                if !is_worth_writing_down(self.shape.size())
                    && let Some(elements) = x.0.as_slice()
                {
                    let elements = program::repeat(elements, x.shape(), shape);
                    let array = Array::from_shape_vec(self.shape.clone(), elements);
                    return Ok(array.expect("one element each").into());
                }
                Ok(Operation::Repeat(x.clone()).of_shape(self.shape.clone()))
            }
            _ => Err(Error::shape(format!("a tensor of shape {:?} does not broadcast to {shape:?}", x.shape(),))),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(sum_to(at.delta.clone(), self.shape.slice(), at.values.0.dim())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(broadcast_to(along.tangents.0.as_ref()?, self.shape.clone()))
    }

    fn cost(&self, _: (&Nd<A, D>,)) -> f64 {
        200.0 + 0.5 * self.shape.size_checked().unwrap_or(0) as f64
    }
}
