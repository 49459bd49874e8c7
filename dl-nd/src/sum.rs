//! The sum of many tensors: of the deltas of a layer with several consumers, for instance.

use crate::element::{Element, Rank};
use crate::elements::copy;
use crate::formula::{Operation, is_worth_writing_down};
use crate::nd::Nd;
use crate::parts::sum_of_parts;
use crate::program;
use dl_core::{Along, At, Binary, Error, Layer, Primitive, Result};
use std::marker::PhantomData;

#[track_caller]
pub(crate) fn sum<A: Element, D: Rank>(mut terms: Vec<Layer<Nd<A, D>>>) -> Layer<Nd<A, D>> {
    if terms.len() == 1 {
        return terms.remove(0);
    }
    match sum_of_parts(&terms) {
        Some(sum) => sum,
        None => Layer::apply(Sum(PhantomData), terms),
    }
}

/// The sum of those that are there; none if there is none.
#[track_caller]
pub(crate) fn sum_of<A: Element, D: Rank>(
    terms: impl IntoIterator<Item = Option<Layer<Nd<A, D>>>>,
) -> Option<Layer<Nd<A, D>>> {
    let terms: Vec<_> = terms.into_iter().flatten().collect();
    if terms.is_empty() { None } else { Some(sum(terms)) }
}

/// Adds a small tensor to another one in place, as a sum of both would. Says whether it has.
pub(crate) fn add_in_place<A: Element, D: Rank>(sum: &mut Nd<A, D>, term: &Nd<A, D>) -> bool {
    if is_worth_writing_down(term.len()) || sum.shape() != term.shape() || !sum.0.is_standard_layout() {
        return false;
    }
    let Some(term) = term.0.as_slice() else { return false };
    let sum = sum.0.array_mut().as_slice_mut().expect("in standard layout");
    program::add(sum, term);
    true
}

/// The sum of many tensors of the same shape, element by element from the first to the last.
struct Sum<A, D>(PhantomData<(A, D)>);

impl<A: Element, D: Rank> Primitive for Sum<A, D> {
    type Operands = Vec<Layer<Nd<A, D>>>;
    type Output = Nd<A, D>;
    const IS_SUM: bool = true;
    const IS_PLAIN: bool = true;

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
        if is_worth_writing_down(first.len()) {
            let add = |sum: Nd<A, D>, &term: &&Nd<A, D>| {
                Operation::Binary(Binary::Add, sum, term.clone()).of_shape(first.dim())
            };
            return Ok(rest.iter().fold((*first).clone(), add));
        }
        let slices: Option<Vec<&[A]>> = rest.iter().map(|term| term.0.as_slice()).collect();
        // a sum over some of its axes depends on the layout, which must not depend on what was
        // added up before
        let first = first.view();
        let arranged = first.as_standard_layout();
        let mut sum = if arranged.is_view() { copy(arranged.view()) } else { arranged.into_owned() };
        match (sum.as_slice_mut(), slices) {
            (Some(sum), Some(slices)) => {
                // block by block, so that each element is written to memory once
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
        sum_of(along.tangents.iter().cloned())
    }

    fn cost(&self, terms: Vec<&Nd<A, D>>) -> f64 {
        200.0 + 0.5 * terms.iter().map(|term| term.len()).sum::<usize>() as f64
    }
}
