//! Joins tensors along an existing axis (`concat`) or along a new one (`stack`).

use crate::device::{View, common_place};
use crate::fusion::is_small;
use crate::kernels::zip_in_parts;
use crate::ops::axes::axis_of;
use crate::ops::reshape::MovementOps;
use crate::ops::slice::narrow;
use crate::tensor::{Element, Nd, Rank, Storage, check_size, tensor_of_shape};
use dl_core::{Along, At, BlockOp, BuiltIn, Differentiable, Error, Layer, Primitive, Result, Trainable, buffers};
use ndarray::Axis;
use std::marker::PhantomData;

/// Concatenates tensors along an existing axis: with axis 0, `[m, …]` and `[n, …]` give
/// `[m + n, …]`. A negative axis counts from the last one.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, concat};
/// let joined = concat(0, [Nd::from([1.0]), Nd::from([2.0, 3.0])]);
/// assert_eq!(joined.predict().wait()?, Nd::from([1.0, 2.0, 3.0]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When there are no tensors, the axis does not exist, or the shapes differ along another axis.
#[track_caller]
pub fn concat<A: Element, D: Rank, X: Differentiable<Data = Nd<A, D>>>(
    axis: isize,
    tensors: impl IntoIterator<Item = X>,
) -> Layer<Nd<A, D>> {
    let mut layers = Vec::new();
    for tensor in tensors {
        layers.push(tensor.into_layer());
    }
    Layer::apply_built_in(Concat { name: "concat", axis, types: PhantomData }, layers)
}

/// Stacks tensors of the same shape along a new axis: with axis 0, `n` tensors of shape `[…]` give
/// `[n, …]`. A negative axis counts from the end of the result's axes: −1 adds a last one.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, stack};
/// let rows = stack(0, [Nd::from([1.0, 2.0]), Nd::from([3.0, 4.0])]);
/// assert_eq!(rows.predict().wait()?, Nd::from([[1.0, 2.0], [3.0, 4.0]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When there are no tensors, `axis` is out of range, or the shapes differ.
#[track_caller]
pub fn stack<A, D, X>(axis: isize, tensors: impl IntoIterator<Item = X>) -> Layer<Nd<A, D::Larger>>
where
    A: Element,
    D: Rank,
    D::Larger: Rank,
    X: Differentiable<Data = Nd<A, D>>,
{
    let mut layers = Vec::new();
    for tensor in tensors {
        layers.push(tensor.into_layer().unsqueeze(axis));
    }
    Layer::apply_built_in(Concat { name: "stack", axis, types: PhantomData }, layers)
}

#[derive(Clone)]
struct Concat<A, D> {
    name: &'static str,
    axis: isize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Concat<A, D> {
    fn axis(&self, tensors: &[&Nd<A, D>]) -> Result<usize> {
        let Some(first) = tensors.first() else {
            return Err(Error::invalid("an empty list of tensors cannot be joined"));
        };
        let axis = axis_of(self.axis, first.shape())?;
        for (number, other) in tensors.iter().enumerate() {
            let (a, b) = (first.shape(), other.shape());
            let differs = (0..a.len()).find(|&other| other != axis && a.get(other) != b.get(other));
            if a.len() != b.len() || differs.is_some() {
                let where_ =
                    differs.map_or(String::new(), |differs| format!(": their lengths along axis {differs} differ"));
                return Err(Error::shape(format!(
                    "tensors 0 and {number}, of shapes {a:?} and {b:?}, cannot be joined along axis {axis}{where_}"
                )));
            }
        }
        Ok(axis)
    }
}

impl<A: Element, D: Rank> Primitive for Concat<A, D> {
    type Operands = Vec<Layer<Nd<A, D>>>;
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, tensors: Vec<&Nd<A, D>>) -> Result<Nd<A, D>> {
        let axis = self.axis(&tensors)?;
        let mut shape = tensors[0].shape().to_vec();
        shape[axis] = tensors.iter().fold(0, |length, tensor| length.saturating_add(tensor.shape()[axis]));
        check_size::<A>(&shape)?;
        if let Some(device) = common_place(tensors.iter().map(|tensor| (tensor.0.device(), usize::MAX)))? {
            let joined = View::new(device, A::ELEMENT, &shape)?;
            let mut start = 0;
            for tensor in &tensors {
                let (view, length) = (tensor.0.on_device()?.expect("it lies on the device"), tensor.shape()[axis]);
                view.copy_to(&joined.clone().sliced(axis, start, length, 1))?;
                start += length;
            }
            return Ok(Nd(Storage::from_view(joined)));
        }
        let mut joined: Nd<A, D> = tensor_of_shape(&shape, buffers::take_filled(shape.iter().product()));
        let mut rest = joined.0.array_mut().view_mut().into_dyn();
        for tensor in tensors {
            let (to, after) = rest.split_at(Axis(axis), tensor.shape()[axis]);
            zip_in_parts(to, tensor.0.view().into_dyn(), |to, &x| *to = x);
            rest = after;
        }
        Ok(joined)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, D>>>> {
        let axis = self.axis(&at.values).expect("the axis was checked");
        let mut start = 0;
        let each = at.values.iter().map(|tensor| {
            let length = tensor.shape()[axis];
            start += length;
            Some(narrow(at.delta, axis, start - length, length))
        });
        each.collect()
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let each = along.tangents.iter().zip(&along.values);
        let tangents =
            each.map(|(tangent, x)| tangent.clone().unwrap_or_else(|| Layer::constant(x.zeros_like()))).collect();
        Some(Layer::apply_built_in(Concat { name: self.name, axis: self.axis, types: PhantomData }, tangents))
    }

    fn cost(&self, tensors: Vec<&Nd<A, D>>) -> f64 {
        200.0 + tensors.iter().map(|tensor| tensor.len()).sum::<usize>() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for Concat<A, D> {
    const IS_PURE: bool = true;

    fn is_by_rows(&self, has_rows: &[bool], tensors: Vec<&Nd<A, D>>, _: &Nd<A, D>) -> bool {
        has_rows.iter().all(|&has_rows| has_rows) && self.axis(&tensors).is_ok_and(|axis| axis > 0)
    }

    fn block_op(&self, tensors: Vec<&Nd<A, D>>, value: &Nd<A, D>) -> Option<BlockOp> {
        let rows = value.shape()[..self.axis(&tensors).ok()?].iter().product();
        (!value.is_empty() && is_small(value)).then_some(BlockOp::Join { rows })
    }
}
