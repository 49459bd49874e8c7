//! The sum of many tensors, for instance of the deltas of a layer with several consumers.

use crate::device::{View, common_place};
use crate::fusion::{self, is_small, should_defer};
use crate::kernels::sum_all;
use crate::ops::slice_gradient::sum_slice_gradients;
use crate::tensor::{Derivative, Element, Expr, Nd, Rank, compact_copy};
use dl_core::{Along, At, Binary, BlockOp, BuiltIn, Error, Layer, Pointwise, Primitive, Result};
use std::marker::PhantomData;

#[track_caller]
pub(crate) fn add_n<A: Element, D: Rank>(mut terms: Vec<Layer<Nd<A, D>>>) -> Layer<Nd<A, D>> {
    if terms.len() == 1 {
        return terms.remove(0);
    }
    match sum_slice_gradients(&terms) {
        Some(sum) => sum,
        None => Layer::apply_built_in(AddN(PhantomData), terms),
    }
}

/// The sum of the present terms; `None` if there are none.
#[track_caller]
pub(crate) fn sum_present<A: Element, D: Rank>(
    terms: impl IntoIterator<Item = Option<Layer<Nd<A, D>>>>,
) -> Option<Layer<Nd<A, D>>> {
    let terms: Vec<_> = terms.into_iter().flatten().collect();
    if terms.is_empty() { None } else { Some(add_n(terms)) }
}

/// Adds a small tensor to another one in place, with the same result as their sum. Returns whether
/// it did so; large, unequally shaped or non-contiguous tensors are left unchanged.
pub(crate) fn add_in_place<A: Element, D: Rank>(sum: &mut Nd<A, D>, term: &Nd<A, D>) -> bool {
    if should_defer(term.len()) || sum.shape() != term.shape() || !sum.0.is_standard_layout() {
        return false;
    }
    let Some(term) = term.0.as_slice() else { return false };
    let sum = sum.0.array_mut().as_slice_mut().expect("in standard layout");
    fusion::add_assign(sum, term);
    true
}

/// The sum of tensors of equal shape, accumulated from the first to the last.
#[derive(Clone)]
struct AddN<A, D>(PhantomData<(A, D)>);

impl<A: Element, D: Rank> Primitive for AddN<A, D> {
    type Operands = Vec<Layer<Nd<A, D>>>;
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "sum"
    }

    fn value(&self, terms: Vec<&Nd<A, D>>) -> Result<Nd<A, D>> {
        let Some((first, rest)) = terms.split_first() else {
            return Err(Error::invalid("the sum of no tensors has no shape"));
        };
        if let Some(other) = rest.iter().find(|term| term.shape() != first.shape()) {
            let (first, other) = (first.shape(), other.shape());
            return Err(Error::shape(format!("tensors of shapes {first:?} and {other:?} cannot be summed")));
        }
        let on_device = common_place(terms.iter().map(|term| (term.0.device(), term.len())))?.is_some();
        if on_device || should_defer(first.len()) {
            let add =
                |sum: Nd<A, D>, &term: &&Nd<A, D>| Expr::Binary(Binary::Add, sum, term.clone()).of_shape(first.dim());
            return Ok(rest.iter().fold((*first).clone(), add));
        }
        let slices: Option<Vec<&[A]>> = rest.iter().map(|term| term.0.as_slice()).collect();
        // the sum is always in row-major order: the rounding of a later reduction depends on the
        // layout, which must not depend on those of the terms
        let first = first.view();
        let arranged = first.as_standard_layout();
        let mut sum = if arranged.is_view() { compact_copy(arranged.view()) } else { arranged.into_owned() };
        match (sum.as_slice_mut(), slices) {
            (Some(sum), Some(slices)) => {
                // block by block, so that each element of the sum is written to memory once
                for (block, sum) in sum.chunks_mut(1024).enumerate() {
                    for slice in &slices {
                        let from = block * 1024;
                        for (sum, &term) in sum.iter_mut().zip(&slice[from..]) {
                            *sum = *sum + term;
                        }
                    }
                }
            }
            _ => {
                for term in rest {
                    sum.zip_mut_with(&term.0, |sum, &term| *sum = *sum + term);
                }
            }
        }
        Ok(sum.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, D>>>> {
        vec![Some(at.delta.clone()); at.operands.len()]
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        sum_present(along.tangents.iter().cloned())
    }

    fn cost(&self, terms: Vec<&Nd<A, D>>) -> f64 {
        200.0 + 0.5 * terms.iter().map(|term| term.len()).sum::<usize>() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for AddN<A, D> {
    const IS_SUM: bool = true;
    const IS_PURE: bool = true;

    fn is_by_rows(&self, has_rows: &[bool], _: Vec<&Nd<A, D>>, _: &Nd<A, D>) -> bool {
        has_rows.iter().all(|&has_rows| has_rows)
    }

    fn block_op(&self, _: Vec<&Nd<A, D>>, value: &Nd<A, D>) -> Option<BlockOp> {
        (is_small(value)).then_some(BlockOp::Sum)
    }
}

macro_rules! derivatives {
    ($($A:ident),*) => {$(
        impl Derivative for $A {
            #[track_caller]
            fn sum_of_tensors<D: Rank>(terms: Vec<Layer<Nd<$A, D>>>) -> Layer<Nd<$A, D>> {
                add_n(terms)
            }

            fn add_in_place<D: Rank>(sum: &mut Nd<$A, D>, term: &Nd<$A, D>) -> bool {
                add_in_place(sum, term)
            }

            #[track_caller]
            fn scaled_tensor<D: Rank>(layer: &Layer<Nd<$A, D>>, factor: f64) -> Layer<Nd<$A, D>> {
                Nd::with_number(Binary::Mul, layer, factor, false)
            }

            fn squared_norm<D: Rank>(tensor: &Nd<$A, D>) -> f64 {
                match tensor.0.on_device().and_then(|view| view.map(View::squared_norm).transpose()) {
                    Ok(Some(squares)) => squares,
                    Ok(None) => sum_all(tensor.0.mapv(|x| f64::from(x) * f64::from(x)).view().into_dyn()),
                    Err(error) => error.raise(),
                }
            }
        }
    )*};
}

derivatives!(f32, f64);
