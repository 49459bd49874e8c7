//! Selection: parts of a tensor, down to a single element. The delta of a part is put back among zeros.

use crate::element::{Element, Rank};
use crate::movement::check_axis;
use crate::nd::Nd;
use dl_core::{At, Error, Layer, Primitive, Result};
use ndarray::{Array, Axis, Slice};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The positions along an axis that a part consists of.
#[derive(Clone)]
pub(crate) enum Picked {
    /// Those of a range; `row` says that the user asked for a single one.
    Range {
        range: Range<usize>,
        row: bool,
    },
    Indices(Arc<[usize]>),
}

impl Picked {
    /// What is wrong with them on an axis of this length.
    fn fault(&self, length: usize) -> Option<String> {
        match self {
            Picked::Range { range, .. } if range.start <= range.end && range.end <= length => None,
            Picked::Range { range, row: true } => Some(format!("row {}", range.start)),
            Picked::Range { range, row: false } => Some(format!("{range:?}")),
            Picked::Indices(indices) => {
                let at = indices.iter().position(|&index| index >= length)?;
                Some(format!("index {} (number {at} of the list)", indices[at]))
            }
        }
    }
}

#[track_caller]
pub(crate) fn select<A: Element, D: Rank>(x: Layer<Nd<A, D>>, axis: usize, picked: Picked) -> Layer<Nd<A, D>> {
    Layer::apply(Select { axis, picked, types: PhantomData }, (x,))
}

#[track_caller]
pub(crate) fn element<A: Element, D: Rank>(x: Layer<Nd<A, D>>, index: D) -> Layer<A> {
    Layer::apply(ElementAt { index, element: PhantomData }, (x,))
}

struct Select<A, D> {
    axis: usize,
    picked: Picked,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Select<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        match self.picked {
            Picked::Range { row: true, .. } => "row",
            Picked::Range { row: false, .. } => "slice_axis",
            Picked::Indices(_) => "select",
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let (axis, shape) = (self.axis, x.shape());
        check_axis(axis, shape)?;
        let length = shape[axis];
        if let Some(fault) = self.picked.fault(length) {
            return Err(Error::invalid(format!(
                "{fault} does not lie in axis {axis} of {shape:?}, whose length is {length}"
            )));
        }
        let axis = Axis(axis);
        match &self.picked {
            Picked::Range { range, .. } => {
                let mut part = x.0.clone();
                part.slice_axis_inplace(axis, Slice::from(range.clone()));
                Ok(Nd(part))
            }
            Picked::Indices(indices) => {
                let part = x.0.view().into_dyn().select(axis, indices);
                Ok(part.into_dimensionality().expect("the rank stays").into())
            }
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (axis, picked, shape) = (self.axis, self.picked.clone(), at.values.0.dim());
        (Some(Layer::apply(PutBack { axis, picked, shape, element: PhantomData }, (at.delta.clone(),))),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        let rest = x.len() / x.shape().get(self.axis).copied().unwrap_or(1).max(1);
        match &self.picked {
            Picked::Range { .. } => 200.0,
            Picked::Indices(indices) => 200.0 + (rest * indices.len()) as f64,
        }
    }
}

/// The inverse of [`Select`]: adds the parts to zeros of the whole shape.
struct PutBack<A, D> {
    axis: usize,
    picked: Picked,
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for PutBack<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "put_back"
    }

    fn value(&self, (part,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let mut whole = Array::from_elem(self.shape.clone(), A::of(0.0));
        let axis = Axis(self.axis);
        match &self.picked {
            Picked::Range { range, .. } => whole.slice_axis_mut(axis, Slice::from(range.clone())).assign(&part.0),
            Picked::Indices(indices) => {
                for (part, &index) in part.0.axis_chunks_iter(axis, 1).zip(indices.iter()) {
                    let mut place = whole.slice_axis_mut(axis, Slice::from(index..index + 1));
                    place.zip_mut_with(&part, |sum, &part| *sum = *sum + part);
                }
            }
        }
        Ok(whole.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(select(at.delta.clone(), self.axis, self.picked.clone())),)
    }

    fn cost(&self, (part,): (&Nd<A, D>,)) -> f64 {
        200.0 + 0.5 * self.shape.size() as f64 + part.len() as f64
    }
}

struct ElementAt<A, D> {
    index: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for ElementAt<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = A;

    fn name(&self) -> &'static str {
        "at"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<A> {
        let index = self.index.slice();
        if index.len() == x.shape().len()
            && let Some(&element) = x.0.view().into_dyn().get(index)
        {
            return Ok(element);
        }
        Err(Error::invalid(format!("there is no element {index:?} in a tensor of shape {:?}", x.shape())))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (index, shape) = (self.index.clone(), at.values.0.dim());
        (Some(Layer::apply(PutElement { index, shape, element: PhantomData }, (at.delta.clone(),))),)
    }

    fn cost(&self, _: (&Nd<A, D>,)) -> f64 {
        20.0
    }
}

/// The inverse of [`ElementAt`]: a tensor of zeros with one other element.
struct PutElement<A, D> {
    index: D,
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for PutElement<A, D> {
    type Operands = (Layer<A>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "put_element"
    }

    fn value(&self, (element,): (&A,)) -> Result<Nd<A, D>> {
        let mut whole = Array::from_elem(self.shape.clone(), A::of(0.0));
        whole.view_mut().into_dyn()[self.index.slice()] = *element;
        Ok(whole.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<A>>,) {
        (Some(element(at.delta.clone(), self.index.clone())),)
    }

    fn cost(&self, _: (&A,)) -> f64 {
        200.0 + 0.5 * self.shape.size() as f64
    }
}
