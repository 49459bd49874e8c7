//! Reshaping, transposing and broadcasting, as views wherever possible.

use crate::fusion::is_small;
use crate::ops::axes::{Permutation, axis_of, position_of};
use crate::ops::broadcast::broadcast_to;
use crate::tensor::{Element, Item, Nd, Rank, Storage, wrong_rank};
use dl_core::{Along, At, BlockOp, BuiltIn, Differentiable, Error, Layer, Part, Primitive, Result};
use ndarray::{ArcArray, Axis, IntoDimension, Ix1, Ix2, IxDyn, RemoveAxis};
use std::any::Any;
use std::marker::PhantomData;

/// Operations that rearrange elements without changing them.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{MovementOps, Nd};
/// let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(x.t().flatten().predict().wait()?, Nd::from([1.0, 3.0, 2.0, 4.0]));
/// # dl_core::Result::Ok(())
/// ```
pub trait MovementOps<A: Item, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The same elements, in row-major order, in another shape. One length may be [`INFER`].
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).reshape(4).predict().wait()?, Nd::from([1.0, 2.0, 3.0, 4.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the new shape has more or fewer elements, or more than one length is
    /// [`INFER`].
    #[track_caller]
    fn reshape<S: IntoDimension<Dim: Rank>>(&self, shape: S) -> Layer<Nd<A, S::Dim>> {
        reshape(&self.layer(), ReshapeTarget::Shape(shape.into_dimension()))
    }

    /// All elements, in row-major order, as a vector.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).flatten().predict().wait()?, Nd::from([1.0, 2.0, 3.0, 4.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn flatten(&self) -> Layer<Nd<A, Ix1>> {
        reshape(&self.layer(), ReshapeTarget::Flat)
    }

    /// Flattens all axes but the first: `[n, …] → [n, k]`, as before a fully connected layer. This
    /// is PyTorch's `flatten(1)`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::<f32, _>::full([2, 3, 4], 0.0).flatten_rows().predict().wait()?.shape(), [2, 12]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when there is no axis.
    #[track_caller]
    fn flatten_rows(&self) -> Layer<Nd<A, Ix2>> {
        reshape(&self.layer(), ReshapeTarget::Rows)
    }

    /// Reverses the order of the axes; of a matrix, the transpose.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 2.0]]).t().predict().wait()?, Nd::from([[1.0], [2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn t(&self) -> Layer<Nd<A, D>> {
        reverse(&self.layer())
    }

    /// Swaps two axes. A negative axis counts from the last one.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::<f32, _>::full([2, 3, 4], 0.0).transpose(-1, 0).predict().wait()?.shape(), [4, 3, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn transpose(&self, a: isize, b: isize) -> Layer<Nd<A, D>> {
        transpose(&self.layer(), a, b)
    }

    /// Reorders the axes: axis `i` of the result is axis `axes[i]` of this tensor. A negative axis
    /// counts from the last one.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// let x = Nd::from([[[1.0, 2.0]]]).permute([-1, 0, 1]);
    /// assert_eq!(x.predict().wait()?.shape(), [2, 1, 1]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `axes` does not name each axis once.
    #[track_caller]
    fn permute(&self, axes: impl Permutation<D>) -> Layer<Nd<A, D>> {
        permute(&self.layer(), axes.into_order())
    }

    /// Inserts an axis of length 1 at this position. A negative number counts from the end: −1 adds
    /// a last axis.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::from([1.0, 2.0]).unsqueeze(-1).predict().wait()?, Nd::from([[1.0], [2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the position is out of range.
    #[track_caller]
    fn unsqueeze(&self, axis: isize) -> Layer<Nd<A, D::Larger>>
    where
        D::Larger: Rank,
    {
        reshape(&self.layer(), ReshapeTarget::Insert(axis))
    }

    /// Removes an axis of length 1. A negative axis counts from the last one.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::from([[1.0], [2.0]]).squeeze(1).predict().wait()?, Nd::from([1.0, 2.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or its length is not 1.
    #[track_caller]
    fn squeeze(&self, axis: isize) -> Layer<Nd<A, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        reshape(&self.layer(), ReshapeTarget::Remove(axis))
    }

    /// Broadcasts to a larger shape: axes are added in front, and axes of length 1 are repeated.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::from([1.0, 2.0]).expand([2, 2]).predict().wait()?, Nd::from([[1.0, 2.0], [1.0, 2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when this tensor does not broadcast to `shape`.
    #[track_caller]
    fn expand<S: IntoDimension<Dim: Rank>>(&self, shape: S) -> Layer<Nd<A, S::Dim>>
    where
        A: Element,
    {
        expand(&self.layer(), shape.into_dimension())
    }

    /// Adds axes of length 1 in front up to the rank `E`, as broadcasting with a tensor of that
    /// rank does.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// let row = Nd::from([1.0, 2.0]).lift::<ndarray::Ix2>();
    /// assert_eq!(row.predict().wait()?, Nd::from([[1.0, 2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the tensor has more axes than `E`.
    #[track_caller]
    fn lift<E: Rank>(&self) -> Layer<Nd<A, E>> {
        lift(&self.layer())
    }

    /// Converts to the dynamic rank [`IxDyn`](type@IxDyn).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// assert_eq!(Nd::from([[1.0, 2.0]]).to_dyn().predict().wait()?.shape(), [1, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn to_dyn(&self) -> Layer<Nd<A, IxDyn>> {
        lift(&self.layer())
    }

    /// Converts to the rank `E`, usually from the dynamic rank [`IxDyn`](type@IxDyn).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MovementOps, Nd};
    /// let open = Nd::from([[1.0, 2.0]]).to_dyn();
    /// assert_eq!(open.to_rank::<ndarray::Ix2>().predict().wait()?, Nd::from([[1.0, 2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the number of axes is not that of `E`.
    #[track_caller]
    fn to_rank<E: Rank>(&self) -> Layer<Nd<A, E>> {
        reshape(&self.layer(), ReshapeTarget::Rank)
    }
}

impl<X, A: Item, D: Rank> MovementOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// Reshapes to a shape that is known when the layer is built. Returns the layer itself if `E` is
/// the same static rank; the caller must then pass the shape that the layer already has.
#[track_caller]
pub(crate) fn reshape_to<A: Item, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>, shape: E) -> Layer<Nd<A, E>> {
    match same_rank(x) {
        Some(same) if E::NDIM.is_some() => same,
        _ => reshape(x, ReshapeTarget::Shape(shape)),
    }
}

/// Converts to the rank of a result, with missing axes added in front.
#[track_caller]
pub(crate) fn lift<A: Item, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>) -> Layer<Nd<A, E>> {
    in_rank(x, ReshapeTarget::Lift)
}

/// Converts to another rank type with the same axes.
#[track_caller]
pub(crate) fn as_rank<A: Item, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>) -> Layer<Nd<A, E>> {
    in_rank(x, ReshapeTarget::Rank)
}

/// The layer itself if its rank type is `E`, else reshaped. Not written as a closure, which would
/// lose the caller's location.
#[track_caller]
fn in_rank<A: Item, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>, target: ReshapeTarget<E>) -> Layer<Nd<A, E>> {
    match same_rank(x) {
        Some(same) => same,
        None => reshape(x, target),
    }
}

/// The layer itself, if its rank type is `E`.
fn same_rank<A: Item, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>) -> Option<Layer<Nd<A, E>>> {
    (x as &dyn Any).downcast_ref().cloned()
}

#[track_caller]
pub(crate) fn reshape<A: Item, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>, target: ReshapeTarget<E>) -> Layer<Nd<A, E>> {
    Layer::apply_built_in(Reshape { target, types: PhantomData }, (x.clone(),))
}

/// The axes in reverse order.
#[track_caller]
pub(crate) fn reverse<A: Item, D: Rank>(x: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Permute { order: AxisOrder::Reversed, operand: PhantomData }, (x.clone(),))
}

#[track_caller]
pub(crate) fn transpose<A: Item, D: Rank>(x: &Layer<Nd<A, D>>, a: isize, b: isize) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Permute { order: AxisOrder::Exchanged(a, b), operand: PhantomData }, (x.clone(),))
}

/// Whether this layer is the transposition of another one.
pub(crate) fn is_transposition<A: Item>(x: &Layer<Nd<A, Ix2>>) -> bool {
    x.applied::<Permute<A, Ix2>>().is_some_and(|(op, _)| op.order.exchanges(2) == Some([0, 1]))
}

#[track_caller]
pub(crate) fn permute<A: Item, D: Rank>(x: &Layer<Nd<A, D>>, axes: Vec<isize>) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Permute { order: AxisOrder::Axes(axes), operand: PhantomData }, (x.clone(),))
}

#[track_caller]
pub(crate) fn expand<A: Element, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>, shape: E) -> Layer<Nd<A, E>> {
    broadcast_to(&lift(x), shape)
}

/// The target of a reshape.
#[derive(Clone)]
pub(crate) enum ReshapeTarget<E> {
    /// This shape.
    Shape(E),
    /// A vector.
    Flat,
    /// A matrix: the first axis is kept, all others are flattened.
    Rows,
    /// The same shape, with a new axis of length 1 at this position.
    Insert(isize),
    /// The same shape, without this axis, which must have length 1.
    Remove(isize),
    /// The same shape with another rank type.
    Rank,
    /// The same shape, with axes of length 1 in front up to the rank of the output.
    Lift,
}

impl<E: Rank> ReshapeTarget<E> {
    /// An array in the target shape: a view, or a copy if there is no such view.
    fn of<T: Clone, D: Rank>(&self, array: ArcArray<T, D>) -> Result<ArcArray<T, E>> {
        let (old, len) = (array.raw_dim(), array.len());
        let old = old.slice();
        let flat = |array: ArcArray<T, D>, shape: &[usize]| {
            array.into_shape_clone(IxDyn(shape)).expect("as many elements").into_shared()
        };
        let array: ArcArray<T, IxDyn> = match self {
            ReshapeTarget::Shape(shape) => {
                let shape = &inferred(shape, len);
                let new = shape.slice();
                let needed = new.iter().try_fold(1_usize, |product, &length| product.checked_mul(length));
                if needed != Some(len) {
                    let needed = needed.map_or("too many".to_owned(), |n| n.to_string());
                    return Err(Error::shape(format!(
                        "{old:?} has {len} elements, but {} has {needed}",
                        shape_text(new)
                    )));
                }
                return Ok(array.into_shape_clone(shape.clone()).expect("the numbers of elements agree").into_shared());
            }
            ReshapeTarget::Flat => flat(array, &[len]),
            ReshapeTarget::Rows => {
                let Some((rows, rest)) = old.split_first() else {
                    return Err(Error::shape("a tensor without axes has no rows"));
                };
                flat(array, &[*rows, rest.iter().product()])
            }
            ReshapeTarget::Insert(axis) => {
                let Some(position) = position_of(*axis, old.len() + 1) else {
                    return Err(Error::invalid(format!("no axis can be inserted at {axis} into {old:?}")));
                };
                array.into_dyn().insert_axis(Axis(position))
            }
            ReshapeTarget::Remove(axis) => {
                let axis = axis_of(*axis, old)?;
                if old[axis] != 1 {
                    return Err(Error::shape(format!("axis {axis} of {old:?} has length {}, not 1", old[axis])));
                }
                array.into_dyn().index_axis_move(Axis(axis), 0)
            }
            ReshapeTarget::Rank => array.into_dyn(),
            ReshapeTarget::Lift => {
                let mut array = array.into_dyn();
                while E::NDIM.is_some_and(|rank| array.ndim() < rank) {
                    array = array.insert_axis(Axis(0));
                }
                array
            }
        };
        array.into_dimensionality().map_err(|_| wrong_rank::<E>(old))
    }
}

/// The length of an axis that [`reshape`](MovementOps::reshape) infers from the number of elements;
/// `-1` in PyTorch and NumPy.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{INFER, MovementOps, Nd};
/// let rows = Nd::from([1.0, 2.0, 3.0, 4.0]).reshape([INFER, 2]);
/// assert_eq!(rows.predict().wait()?, Nd::from([[1.0, 2.0], [3.0, 4.0]]));
/// # dl_core::Result::Ok(())
/// ```
pub const INFER: usize = usize::MAX;

/// A shape in an error message.
fn shape_text(shape: &[usize]) -> String {
    format!("{shape:?}").replace(&INFER.to_string(), "INFER")
}

/// The shape with the first [`INFER`] replaced by the length that gives `len` elements, if there is
/// one.
fn inferred<E: Rank>(shape: &E, len: usize) -> E {
    let mut shape = shape.clone();
    if let Some(axis) = shape.slice().iter().position(|&length| length == INFER) {
        let others = shape.slice().iter().enumerate().filter(|&(other, _)| other != axis);
        let others = others.fold(1_usize, |product, (_, &length)| product.saturating_mul(length));
        if others != 0 && len.is_multiple_of(others) {
            shape[axis] = len / others;
        }
    }
    shape
}

#[derive(Clone)]
struct Reshape<A, D, E> {
    target: ReshapeTarget<E>,
    types: PhantomData<(A, D)>,
}

impl<A: Item, D: Rank, E: Rank> Primitive for Reshape<A, D, E> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, E>;

    fn name(&self) -> &'static str {
        match self.target {
            ReshapeTarget::Shape(_) => "reshape",
            ReshapeTarget::Flat => "flatten",
            ReshapeTarget::Rows => "flatten_rows",
            ReshapeTarget::Insert(_) => "unsqueeze",
            ReshapeTarget::Remove(_) => "squeeze",
            ReshapeTarget::Rank => "to_rank",
            ReshapeTarget::Lift => "broadcast",
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, E>> {
        match x.0.on_device()? {
            // an array of units has a shape, but no memory
            Some(view) => {
                let shape = self.target.of(ArcArray::from_elem(x.dim(), ()))?;
                let view = match self.target {
                    ReshapeTarget::Shape(_) | ReshapeTarget::Flat | ReshapeTarget::Rows => {
                        view.reshaped(shape.shape())?
                    }
                    _ => view.with_unit_axes(shape.shape()),
                };
                Ok(Nd(Storage::from_view(view)))
            }
            None => self.target.of(x.array()).map(Nd::from),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A::Derivative, D>>>,) {
        (Some(reshape(at.delta, ReshapeTarget::Shape(at.values.0.dim()))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A::Derivative, E>>> {
        Some(reshape(along.tangents.0.as_ref()?, self.target.clone()))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_arrange()
    }
}

impl<A: Item, D: Rank, E: Rank> BuiltIn for Reshape<A, D, E> {
    const IS_PURE: bool = true;

    fn block_op(&self, (x,): (&Nd<A, D>,), value: &Nd<A, E>) -> Option<BlockOp> {
        view_op(x, value)
    }
}

/// The elements of a small tensor in another shape.
pub(crate) fn view_op<A: Item, D: Rank, E: Rank>(x: &Nd<A, D>, value: &Nd<A, E>) -> Option<BlockOp> {
    let is_view = is_small(x) && x.0.as_slice().is_some() && value.0.as_slice().is_some();
    is_view.then(|| BlockOp::Part(Part::whole(x.len())))
}

/// Reorders axes.
#[derive(Clone)]
struct Permute<A, D> {
    order: AxisOrder,
    operand: PhantomData<(A, D)>,
}

#[derive(Clone)]
enum AxisOrder {
    Reversed,
    Exchanged(isize, isize),
    /// Axis `i` of the result is axis `axes[i]` of the operand.
    Axes(Vec<isize>),
}

impl AxisOrder {
    /// The axis of the operand that each axis of the result is.
    fn of(&self, shape: &[usize]) -> Result<Vec<usize>> {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        match self {
            AxisOrder::Reversed => order.reverse(),
            AxisOrder::Exchanged(a, b) => order.swap(axis_of(*a, shape)?, axis_of(*b, shape)?),
            AxisOrder::Axes(axes) => {
                let named: Vec<usize> = axes.iter().filter_map(|&axis| position_of(axis, shape.len())).collect();
                if axes.len() != shape.len() || !order.iter().all(|axis| named.contains(axis)) {
                    return Err(Error::invalid(format!("{axes:?} does not name each axis of {shape:?} once")));
                }
                order = named;
            }
        }
        Ok(order)
    }

    /// The two axes that it exchanges, the lower first, if it leaves all others in their places.
    fn exchanges(&self, rank: usize) -> Option<[usize; 2]> {
        match *self {
            AxisOrder::Reversed => (rank == 2).then_some([0, 1]),
            AxisOrder::Exchanged(a, b) => {
                let (a, b) = (position_of(a, rank)?, position_of(b, rank)?);
                Some([a.min(b), a.max(b)])
            }
            AxisOrder::Axes(_) => None,
        }
    }
}

impl<A: Item, D: Rank> Primitive for Permute<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        match self.order {
            AxisOrder::Reversed => "t",
            AxisOrder::Exchanged(..) => "transpose",
            AxisOrder::Axes(_) => "permute",
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        if let Some(view) = x.0.on_device()? {
            return Ok(Nd(Storage::from_view(view.permuted(&self.order.of(x.shape())?))));
        }
        let mut array = x.array();
        match &self.order {
            AxisOrder::Reversed => Ok(Nd::from(array.reversed_axes())),
            AxisOrder::Exchanged(a, b) => {
                array.swap_axes(axis_of(*a, x.shape())?, axis_of(*b, x.shape())?);
                Ok(Nd::from(array))
            }
            AxisOrder::Axes(_) => {
                let order = D::from_dimension(&IxDyn(&self.order.of(x.shape())?)).expect("as many axes");
                Ok(Nd::from(array.permuted_axes(order)))
            }
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A::Derivative, D>>>,) {
        let (rank, delta) = (at.values.0.shape().len(), at.delta.applied::<Permute<A::Derivative, D>>());
        if let Some((Permute { order, .. }, (delta,))) = delta
            && order.exchanges(rank).is_some_and(|axes| self.order.exchanges(rank) == Some(axes))
        {
            return (Some(delta),);
        }
        let inverse = match &self.order {
            AxisOrder::Axes(axes) => {
                let mut inverse = axes.clone();
                for (to, &from) in axes.iter().enumerate() {
                    inverse[position_of(from, axes.len()).expect("checked by `value`")] = to as isize;
                }
                AxisOrder::Axes(inverse)
            }
            same => same.clone(),
        };
        (Some(Layer::apply_built_in(Permute { order: inverse, operand: PhantomData }, (at.delta.clone(),))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A::Derivative, D>>> {
        Some(Layer::apply_built_in(
            Permute { order: self.order.clone(), operand: PhantomData },
            (along.tangents.0.clone()?,),
        ))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_compute()
    }
}

impl<A: Item, D: Rank> BuiltIn for Permute<A, D> {
    const IS_PURE: bool = true;
}
