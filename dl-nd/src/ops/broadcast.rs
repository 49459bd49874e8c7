//! Broadcasting of a tensor, and the reduction of a delta to the shape of a broadcast operand.

use crate::fusion::{self, RUN_LEN, is_small, should_defer};
use crate::kernels::sum_along;
use crate::tensor::{Element, Expr, Nd, Rank, Storage, check_size, common_shape};
use dl_core::{Along, At, BlockOp, BuiltIn, Error, Layer, Primitive, Result};
use ndarray::Axis;
use std::marker::PhantomData;

/// Sums a delta of shape `from` to the shape `to` of the operand.
pub(crate) fn sum_to<A: Element, D: Rank>(delta: Layer<Nd<A, D>>, from: &[usize], to: D) -> Layer<Nd<A, D>> {
    if from == to.slice() { delta } else { Layer::apply_built_in(SumTo { shape: to, element: PhantomData }, (delta,)) }
}

/// Repeats a tensor to a larger shape.
#[track_caller]
pub(crate) fn broadcast_to<A: Element, D: Rank>(x: &Layer<Nd<A, D>>, shape: D) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(BroadcastTo { shape, element: PhantomData }, (x.clone(),))
}

/// Whether a tensor of shape `own` is repeated as a whole when it broadcasts to `shape`.
pub(crate) fn repeats_rows(own: &[usize], shape: &[usize]) -> bool {
    let rows = own.iter().position(|&length| length != 1).unwrap_or(own.len());
    shape.ends_with(&own[rows..])
}

/// Sums over the axes that broadcasting added or repeated.
#[derive(Clone)]
struct SumTo<A, D> {
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for SumTo<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "sum_to"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        if let Some(mut sum) = x.0.on_device()? {
            while sum.shape.len() > self.shape.ndim() {
                sum = sum.sum_along(0)?.without(0);
            }
            for (axis, &length) in self.shape.slice().iter().enumerate() {
                if length == 1 && sum.shape[axis] != 1 {
                    sum = sum.sum_along(axis)?;
                }
            }
            return Ok(Nd(Storage::from_view(sum)));
        }
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
        Some(Layer::apply_built_in(
            SumTo { shape: self.shape.clone(), element: PhantomData },
            (along.tangents.0.clone()?,),
        ))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for SumTo<A, D> {
    const IS_PURE: bool = true;

    fn block_op(&self, (x,): (&Nd<A, D>,), value: &Nd<A, D>) -> Option<BlockOp> {
        let sums_rows = matches!((x.shape(), value.shape()), (&[_, from], &[1, to]) if from == to);
        if sums_rows { sum_of_rows_op(x) } else { None }
    }
}

/// The sum of the rows of a small matrix.
pub(crate) fn sum_of_rows_op<A: Element, D: Rank>(x: &Nd<A, D>) -> Option<BlockOp> {
    match *x.shape() {
        [2..=RUN_LEN, columns] if is_small(x) && x.0.as_slice().is_some() => Some(BlockOp::SumOfRows { columns }),
        _ => None,
    }
}

#[derive(Clone)]
struct BroadcastTo<A, D> {
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for BroadcastTo<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "expand"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let shape = self.shape.slice();
        match common_shape::<D>(x.shape(), shape) {
            Ok(common) if common.slice() == shape => {
                check_size::<A>(shape)?;
                if !should_defer(self.shape.size())
                    && let Some(elements) = x.0.as_slice()
                {
                    return Ok(Nd::from_elements(self.shape.clone(), fusion::repeat(elements, x.shape(), shape)));
                }
                Ok(Expr::Repeat(x.clone()).of_shape(self.shape.clone()))
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

impl<A: Element, D: Rank> BuiltIn for BroadcastTo<A, D> {
    const IS_PURE: bool = true;

    fn block_op(&self, (x,): (&Nd<A, D>,), value: &Nd<A, D>) -> Option<BlockOp> {
        let repeats = !x.is_empty() && repeats_rows(x.shape(), value.shape());
        (repeats && is_small(value)).then_some(BlockOp::Repeat)
    }
}
