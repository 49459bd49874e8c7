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
    Range(Range<usize>),
    Indices(Arc<[usize]>),
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
            Picked::Range(_) => "slice_axis",
            Picked::Indices(_) => "select",
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let (axis, shape) = (self.axis, x.shape());
        check_axis(axis, shape)?;
        let length = shape[axis];
        match &self.picked {
            Picked::Range(range) if range.start <= range.end && range.end <= length => {
                let mut part = x.0.clone();
                part.slice_axis_inplace(Axis(axis), Slice::from(range.clone()));
                Ok(Nd(part))
            }
            Picked::Range(range) => Err(Error::invalid(format!(
                "{range:?} does not lie in axis {axis} of {shape:?}, which has length {length}"
            ))),
            Picked::Indices(indices) => match indices.iter().position(|&index| index >= length) {
                None => {
                    let part = x.0.view().into_dyn().select(Axis(axis), indices);
                    Ok(part.into_dimensionality().expect("the rank stays").into())
                }
                Some(at) => Err(Error::invalid(format!(
                    "index {} (number {at} of the list) is not below {length}, the length of axis {axis} of {shape:?}",
                    indices[at],
                ))),
            },
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (axis, picked, shape) = (self.axis, self.picked.clone(), at.values.0.dim());
        (Some(Layer::apply(PutBack { axis, picked, shape, element: PhantomData }, (at.delta.clone(),))),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        let rest = x.len() / x.shape().get(self.axis).copied().unwrap_or(1).max(1);
        match &self.picked {
            Picked::Range(_) => 200.0,
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
            Picked::Range(range) => whole.slice_axis_mut(axis, Slice::from(range.clone())).assign(&part.0),
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
