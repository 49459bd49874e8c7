//! Movement: the same elements in another arrangement, as views wherever possible.

use crate::element::{Element, Rank};
use crate::nd::Nd;
use dl_core::{At, Error, Layer, Primitive, Result};
use ndarray::{ArcArray, Axis, IxDyn};
use std::any::Any;
use std::marker::PhantomData;

/// The error of an axis that is not there.
pub(crate) fn check_axis(axis: usize, shape: &[usize]) -> Result<()> {
    if axis < shape.len() {
        return Ok(());
    }
    Err(Error::invalid(format!("axis {axis} of a tensor of shape {shape:?}, which has {} axes", shape.len())))
}

/// In a new shape, unless rank and shape agree anyway; for shapes that are known when the layer is built.
#[track_caller]
pub(crate) fn reshape_to<A: Element, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>, shape: E) -> Layer<Nd<A, E>> {
    match same_rank(x) {
        Some(same) if E::NDIM.is_some() => same,
        _ => reshape(x, Target::Shape(shape)),
    }
}

/// In the rank of a result: missing axes are added in front.
#[track_caller]
pub(crate) fn lift<A: Element, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>) -> Layer<Nd<A, E>> {
    same_rank(x).unwrap_or_else(|| reshape(x, Target::Lift))
}

fn same_rank<A: Element, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>) -> Option<Layer<Nd<A, E>>> {
    (x as &dyn Any).downcast_ref().cloned()
}

#[track_caller]
pub(crate) fn reshape<A: Element, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>, target: Target<E>) -> Layer<Nd<A, E>> {
    Layer::apply(Reshape { target, types: PhantomData }, (x.clone(),))
}

#[track_caller]
pub(crate) fn transpose<A: Element, D: Rank>(x: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
    Layer::apply(Permute { axes: None, types: PhantomData }, (x.clone(),))
}

#[track_caller]
pub(crate) fn permute<A: Element, D: Rank>(x: &Layer<Nd<A, D>>, axes: D) -> Layer<Nd<A, D>> {
    Layer::apply(Permute { axes: Some(axes), types: PhantomData }, (x.clone(),))
}

/// What a tensor is reshaped to.
pub(crate) enum Target<E> {
    /// This shape.
    Shape(E),
    /// The same shape, with a new axis of length 1 at this place.
    Insert(usize),
    /// The same shape, without this axis, which must have length 1.
    Remove(usize),
    /// The same shape in another type of rank.
    Rank,
    /// The same shape, with as many axes of length 1 in front as the rank asks for.
    Lift,
}

struct Reshape<A, D, E> {
    target: Target<E>,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank, E: Rank> Primitive for Reshape<A, D, E> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, E>;

    fn name(&self) -> &'static str {
        match self.target {
            Target::Shape(_) => "reshape",
            Target::Insert(_) => "insert_axis",
            Target::Remove(_) => "remove_axis",
            Target::Rank => "to_rank",
            Target::Lift => "broadcast",
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, E>> {
        let array = x.0.clone();
        let array: ArcArray<A, IxDyn> = match &self.target {
            Target::Shape(shape) => {
                let (old, new) = (x.shape(), shape.slice());
                let needed = new.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
                if needed != Some(x.len()) {
                    let (found, needed) = (x.len(), needed.map_or("too many".to_owned(), |n| n.to_string()));
                    return Err(Error::shape(format!("{old:?} has {found} elements, but {new:?} has {needed}")));
                }
                return Ok(Nd(array
                    .into_shape_clone(shape.clone())
                    .expect("the numbers of elements agree")
                    .into_shared()));
            }
            Target::Insert(axis) => {
                if *axis > x.shape().len() {
                    return Err(Error::invalid(format!("no axis can be inserted at {axis} into {:?}", x.shape())));
                }
                array.into_dyn().insert_axis(Axis(*axis))
            }
            Target::Remove(axis) => {
                check_axis(*axis, x.shape())?;
                if x.shape()[*axis] != 1 {
                    let (shape, length) = (x.shape(), x.shape()[*axis]);
                    return Err(Error::shape(format!("axis {axis} of {shape:?} has length {length}, not 1")));
                }
                array.into_dyn().index_axis_move(Axis(*axis), 0)
            }
            Target::Rank => array.into_dyn(),
            Target::Lift => {
                let mut array = array.into_dyn();
                while E::NDIM.is_some_and(|rank| array.ndim() < rank) {
                    array = array.insert_axis(Axis(0));
                }
                array
            }
        };
        array.into_dimensionality().map(Nd).map_err(|_| {
            let (shape, rank) = (x.shape(), E::NDIM.unwrap_or(0));
            Error::shape(format!("a tensor of shape {shape:?} does not have {rank} axes"))
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(reshape(at.delta, Target::Shape(at.values.0.dim()))),)
    }

    fn cost(&self, _: (&Nd<A, D>,)) -> f64 {
        200.0
    }
}

/// Axes in another order; `None` reverses them.
struct Permute<A, D> {
    axes: Option<D>,
    types: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for Permute<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        if self.axes.is_some() { "permute" } else { "t" }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let Some(axes) = &self.axes else {
            return Ok(Nd(x.0.clone().reversed_axes()));
        };
        let mut sorted = axes.slice().to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..x.shape().len()) {
            let (axes, shape) = (axes.slice(), x.shape());
            return Err(Error::invalid(format!("{axes:?} does not name each axis of {shape:?} once")));
        }
        Ok(Nd(x.0.clone().permuted_axes(axes.clone())))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let Some(axes) = &self.axes else {
            return (Some(transpose(at.delta)),);
        };
        let mut inverse = axes.clone();
        for (to, &from) in axes.slice().iter().enumerate() {
            inverse.slice_mut()[from] = to;
        }
        (Some(permute(at.delta, inverse)),)
    }

    fn cost(&self, _: (&Nd<A, D>,)) -> f64 {
        200.0
    }
}
