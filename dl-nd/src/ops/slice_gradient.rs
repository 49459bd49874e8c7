//! The delta of a sliced tensor: the deltas of the slices, scattered into zeros.
//!
//! A sequence of a thousand rows that is read row by row receives a thousand deltas. They are
//! accumulated in one tensor, instead of adding a thousand tensors that are zero but for one row.

use crate::fusion;
use crate::ops::reshape::as_rank;
use crate::ops::slice::slice_elements;
use crate::tensor::{Element, Nd, Rank, filled_array};
use dl_core::{Along, At, BuiltIn, Layer, Primitive, Result};
use ndarray::{ArrayView, ArrayViewMut, IxDyn, SliceInfoElem};
use std::marker::PhantomData;

/// A tensor of zeros of this shape, with `part` in the place of `slice`.
#[track_caller]
pub(crate) fn slice_gradient<A: Element, D: Rank>(
    shape: D,
    slice: Box<[SliceInfoElem]>,
    part: Layer<Nd<A, IxDyn>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(SliceGradient { shape, slices: vec![Some(slice)], element: PhantomData }, vec![part])
}

/// The sum of `terms` as one scatter operation, if at least one of them is a slice gradient.
#[track_caller]
pub(crate) fn sum_slice_gradients<A: Element, D: Rank>(terms: &[Layer<Nd<A, D>>]) -> Option<Layer<Nd<A, D>>> {
    let shape = terms.iter().find_map(|term| Some(term.applied::<SliceGradient<A, D>>()?.0.shape.clone()))?;
    let (mut slices, mut parts) = (Vec::with_capacity(terms.len()), Vec::with_capacity(terms.len()));
    for term in terms {
        match term.applied::<SliceGradient<A, D>>().filter(|(op, _)| op.slices.len() == 1) {
            // only single slices are merged, sums are kept as terms: the order of additions must
            // not depend on which terms are computed already
            Some((op, theirs)) => {
                slices.extend(op.slices.iter().cloned());
                parts.extend(theirs);
            }
            None => {
                slices.push(None);
                parts.push(as_rank(term));
            }
        }
    }
    Some(Layer::apply_built_in(SliceGradient { shape, slices, element: PhantomData }, parts))
}

/// Adds the elements of an array of the same shape, which may have another rank type.
pub(crate) fn add_elements<A: Element, D: Rank, E: Rank>(mut to: ArrayViewMut<'_, A, D>, part: ArrayView<'_, A, E>) {
    match (to.as_slice_mut(), part.as_slice()) {
        (Some(to), Some(part)) => fusion::add_assign(to, part),
        _ => to.into_dyn().zip_mut_with(&part.into_dyn(), |sum, &part| *sum = *sum + part),
    }
}

/// Adds parts to a tensor of zeros, in order.
struct SliceGradient<A, D> {
    shape: D,
    /// The slice that each part is added to; `None` for a part of the full shape.
    slices: Vec<Option<Box<[SliceInfoElem]>>>,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for SliceGradient<A, D> {
    type Operands = Vec<Layer<Nd<A, IxDyn>>>;
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "put_back"
    }

    fn value(&self, parts: Vec<&Nd<A, IxDyn>>) -> Result<Nd<A, D>> {
        let mut whole = filled_array(self.shape.clone(), A::zero());
        for (part, slice) in parts.into_iter().zip(&self.slices) {
            let mut there = whole.view_mut().into_dyn();
            if let Some(slice) = slice {
                there = there.slice_move(&slice[..]);
            }
            add_elements(there, part.view());
        }
        Ok(whole.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, IxDyn>>>> {
        let each = self.slices.iter().map(|slice| match slice {
            Some(slice) => Some(slice_elements(at.delta, slice.clone())),
            None => Some(as_rank(at.delta)),
        });
        each.collect()
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let moving =
            self.slices.iter().zip(along.tangents).filter_map(|(slice, part)| Some((slice.clone(), part.clone()?)));
        let (slices, parts) = moving.unzip();
        Some(Layer::apply_built_in(SliceGradient { shape: self.shape.clone(), slices, element: PhantomData }, parts))
    }

    fn cost(&self, parts: Vec<&Nd<A, IxDyn>>) -> f64 {
        200.0 + 0.5 * self.shape.size() as f64 + parts.iter().map(|part| 50.0 + part.len() as f64).sum::<f64>()
    }
}

impl<A: Element, D: Rank> BuiltIn for SliceGradient<A, D> {
    const IS_PURE: bool = true;
}
