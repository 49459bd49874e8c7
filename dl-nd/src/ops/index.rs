//! Selection by tensors of indices, and its adjoint, which adds each delta at the index that it was
//! read from.

use crate::device::{ScatterOrder, View, common_place};
use crate::fusion::view_on;
use crate::kernels::{self, around};
use crate::ops::axes::axis_of;
use crate::ops::compare::{choose, is_equal};
use crate::ops::masked_select::masked_select;
use crate::ops::reshape::{MovementOps, as_rank};
use crate::ops::slice_gradient::{Place, add_part_now, slice_gradient};
use crate::tensor::{Element, HasRank, Nd, Rank, check_size, row_major_copy};
use dl_core::{
    Along, At, BuiltIn, CotangentSink, Deltas, Differentiable, Error, Immediate, Layer, Primitive, Result, Trainable,
};
use ndarray::{ArrayD, ArrayView, ArrayViewD, ArrayViewMutD, Axis, Dimension, Ix1, IxDyn, Slice};
use std::marker::PhantomData;
use std::panic::Location;

/// Indices of elements, rows or classes: a tensor of `usize`, a layer of one, or, as a list, an
/// array, a slice or a `Vec`; a single number is a list of length one.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{IndexOps, Nd};
/// let x = Nd::from([1.0, 2.0, 3.0]);
/// let last_first = Nd::from([3.0, 2.0, 1.0]);
/// assert_eq!(x.index_select(0, [2, 1, 0]).predict().wait()?, last_first);
/// assert_eq!(x.index_select(0, Nd::from([2_usize, 1, 0])).predict().wait()?, last_first);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor or list of indices",
    note = "indices and labels are `usize`: a tensor (`Nd<usize, _>`), an array, a slice, a `Vec`, or a single number"
)]
pub trait Indices {
    /// The rank of the tensor of indices.
    type Rank: Rank;

    /// Converts them to a layer.
    #[track_caller]
    fn into_indices(self) -> Layer<Nd<usize, Self::Rank>>;
}

macro_rules! tensors_of_indices {
    ($($X:ty),*) => {$(
        impl<E: Rank> Indices for $X {
            type Rank = E;

            #[track_caller]
            fn into_indices(self) -> Layer<Nd<usize, E>> {
                self.into_layer()
            }
        }
    )*};
}

tensors_of_indices!(Nd<usize, E>, &Nd<usize, E>, Layer<Nd<usize, E>>, &Layer<Nd<usize, E>>);

macro_rules! lists_of_indices {
    ($([$($generics:tt)*] $X:ty: |$x:ident| $list:expr),*) => {$(
        impl<$($generics)*> Indices for $X {
            type Rank = Ix1;

            #[track_caller]
            fn into_indices(self) -> Layer<Nd<usize, Ix1>> {
                let $x = self;
                Layer::constant(Nd::from($list))
            }
        }
    )*};
}

lists_of_indices! {
    [] usize: |x| vec![x], [const N: usize] [usize; N]: |x| x.to_vec(), [const N: usize] &[usize; N]: |x| x.to_vec(),
    [] &[usize]: |x| x.to_vec(), [] Vec<usize>: |x| x, [] &Vec<usize>: |x| x.clone()
}

/// Selection by indices.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{IndexOps, Nd};
/// let rows = Nd::from([[1.0, 2.0], [3.0, 4.0]]).index_select(0, [1, 1]);
/// assert_eq!(rows.predict().wait()?, Nd::from([[3.0, 4.0], [3.0, 4.0]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait IndexOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The slices at these indices along an axis, in the given order; indices may repeat. Shape
    /// `[…, length, …]` becomes `[…, indices, …]`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{IndexOps, Nd};
    /// assert_eq!(Nd::from([1.0, 2.0, 3.0]).index_select(0, [2, 0, 2]).predict().wait()?, Nd::from([3.0, 1.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, or an index is out of range.
    #[track_caller]
    fn index_select(&self, axis: isize, indices: impl Indices<Rank = Ix1>) -> Layer<Nd<A, D>> {
        take("index_select", axis, self.layer(), indices.into_indices())
    }

    /// The rows of this matrix at the given indices, which may have any shape: `[…] → […, width]`.
    /// The delta of the matrix is dense; for a sparse delta use a [`Table`](crate::Table).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{IndexOps, Nd};
    /// let vectors = Nd::from([[0.0, 1.0], [2.0, 3.0]]).embedding(Nd::from([[1_usize, 0, 1]]));
    /// assert_eq!(vectors.predict().wait()?, Nd::from([[[2.0, 3.0], [0.0, 1.0], [2.0, 3.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When an index is not below the number of rows.
    #[track_caller]
    fn embedding<I: Indices>(&self, indices: I) -> Layer<Nd<A, <I::Rank as Dimension>::Larger>>
    where
        D: HasRank<2>,
        <I::Rank as Dimension>::Larger: Rank,
    {
        take("embedding", 0, self.layer(), indices.into_indices())
    }

    /// [`embedding`](IndexOps::embedding) where no gradient flows to row `padding`, whose index
    /// fills up sequences of different lengths. PyTorch's `padding_idx`.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight}; use dl_nd::{IndexOps, Nd, ReduceOps};
    /// let w = Weight::new(Nd::from([[0.0], [2.0]]));
    /// let sum = w.embedding_padded([0, 1, 0], 0).sum();
    /// assert_eq!(sum.gradient(&w).predict().wait()?, Nd::from([[0.0], [1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When an index is not below the number of rows.
    #[track_caller]
    fn embedding_padded<I: Indices>(&self, indices: I, padding: usize) -> Layer<Nd<A, <I::Rank as Dimension>::Larger>>
    where
        D: HasRank<2>,
        <I::Rank as Dimension>::Larger: Rank,
    {
        let indices = indices.into_indices();
        without_padding(take("embedding", 0, self.layer(), indices.clone()), &indices, padding)
    }

    /// Selects one element along an axis for each index: `y[i][j] = x[index[i][j]][j]` for axis 0
    /// of a matrix. The indices must have as many axes as this tensor, and must not be longer than
    /// it along any other axis. The result has the shape of the indices.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{IndexOps, Nd};
    /// let picked = Nd::from([[1.0, 2.0], [3.0, 4.0]]).gather(1, Nd::from([[1_usize], [0]]));
    /// assert_eq!(picked.predict().wait()?, Nd::from([[2.0], [3.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, an index is out of range, or the shapes do not match.
    #[track_caller]
    fn gather(&self, axis: isize, indices: impl Indices<Rank = D>) -> Layer<Nd<A, D>> {
        gather(axis, self.layer(), indices.into_indices())
    }

    /// Adds the elements of `source` at the given indices: `y[index[i][j]][j] += source[i][j]` for
    /// axis 0 of a matrix, starting from this tensor. Elements with equal indices are added in
    /// their order.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{IndexOps, Nd};
    /// let sums = Nd::from([10.0, 20.0]).scatter_add(0, [1, 1, 0], Nd::from([1.0, 2.0, 3.0]));
    /// assert_eq!(sums.predict().wait()?, Nd::from([13.0, 23.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis, an index is out of range, or the shapes do not match.
    #[track_caller]
    fn scatter_add<S>(&self, axis: isize, indices: impl Indices<Rank = D>, source: S) -> Layer<Nd<A, D>>
    where
        S: Differentiable<Data = Nd<A, D>>,
    {
        scatter_add(axis, self.layer(), indices.into_indices(), source.into_layer())
    }

    /// The elements at which a mask is true, in row-major order. The mask must broadcast to the
    /// shape of this tensor.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{CompareOps, IndexOps, Nd};
    /// let x = Nd::from([[1.0, -2.0], [3.0, -4.0]]);
    /// assert_eq!(x.masked_select(x.greater(0.0)).predict().wait()?, Nd::from([1.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the mask does not broadcast to the shape of this tensor.
    #[track_caller]
    fn masked_select<E: Rank>(&self, mask: impl Differentiable<Data = Nd<bool, E>>) -> Layer<Nd<A, Ix1>> {
        masked_select(self.layer(), mask.into_layer())
    }
}

impl<X, A: Element, D: Rank> IndexOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// The vectors at these indices, without a gradient for those at index `padding`.
#[track_caller]
pub(crate) fn without_padding<A: Element, D: Rank>(
    vectors: Layer<Nd<A, D::Larger>>,
    indices: &Layer<Nd<usize, D>>,
    padding: usize,
) -> Layer<Nd<A, D::Larger>>
where
    D::Larger: Rank,
{
    let is_padding = is_equal(indices, padding).unsqueeze(-1);
    choose(is_padding, vectors.stop_gradient(), vectors)
}

#[track_caller]
pub(crate) fn take<A: Element, D: Rank, E: Rank, O: Rank>(
    name: &'static str,
    axis: isize,
    x: Layer<Nd<A, D>>,
    indices: Layer<Nd<usize, E>>,
) -> Layer<Nd<A, O>> {
    Layer::apply_built_in(Take { name, axis, place: Location::caller(), types: PhantomData }, (x, indices))
}

/// Slices along an axis: the axes of the indices replace the axis of `x`.
#[derive(Clone)]
struct Take<A, D, E, O> {
    name: &'static str,
    axis: isize,
    place: &'static Location<'static>,
    types: PhantomData<(A, D, E, O)>,
}

/// Checks that all indices are within the axis.
fn check<D: Dimension>(indices: &ArrayView<'_, usize, D>, axis: usize, shape: &[usize]) -> Result<()> {
    let length = shape[axis];
    if indices.as_slice().is_some_and(|indices| kernels::all_below(indices, length)) {
        return Ok(());
    }
    match indices.iter().enumerate().find(|&(_, &index)| index >= length) {
        None => Ok(()),
        Some((number, &index)) => Err(out_of_range(number, index, axis, shape)),
    }
}

fn out_of_range(number: usize, index: usize, axis: usize, shape: &[usize]) -> Error {
    let length = shape[axis];
    Error::invalid(format!(
        "index {index} (number {number} of the indices) is out of range for axis {axis} of {shape:?}, which has length {length}"
    ))
}

/// The indices on a device with the same check. The error of this operation is reported by a read
/// of what is computed from them.
fn checked_on_device(
    indices: View,
    axis: usize,
    shape: &[usize],
    (name, place): (&'static str, &'static Location<'static>),
) -> Result<View> {
    let of = shape.to_vec();
    let error = move |number, index| out_of_range(number, index, axis, &of).at_location(name, place);
    indices.checked_below(shape[axis], None, Box::new(error))
}

impl<A: Element, D: Rank, E: Rank, O: Rank> Primitive for Take<A, D, E, O> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<usize, E>>);
    type Output = Nd<A, O>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x, indices): (&Nd<A, D>, &Nd<usize, E>)) -> Result<Nd<A, O>> {
        let axis = axis_of(self.axis, x.shape())?;
        let (before, after) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
        let shape = [before, indices.shape(), after].concat();
        check_size::<A>(&shape)?;
        if let Some(view) = x.0.on_device()? {
            let at = (self.name, self.place);
            let indices = checked_on_device(view_on(view.device(), indices)?, axis, x.shape(), at)?;
            return view.take(axis, &indices).map(Nd::from_view);
        }
        check(&indices.view(), axis, x.shape())?;
        let indices = indices.0.as_standard_layout();
        let indices = indices.as_slice().expect("in row-major order");
        let parts = match x.0.as_slice() {
            Some(elements) => {
                let parts = kernels::take(elements, around(x.shape(), axis), indices);
                ArrayD::from_shape_vec(shape, parts).expect("as many elements")
            }
            None => {
                let parts = x.0.view().into_dyn().select(Axis(axis), indices);
                parts.into_shape_clone(IxDyn(&shape)).expect("as many elements")
            }
        };
        let parts = parts.into_dimensionality().map(Nd::from);
        parts.map_err(|_| Error::shape(format!("a tensor of shape {:?} is not a matrix", x.shape())))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let (x, indices) = at.values;
        let axis = axis_of(self.axis, x.shape()).expect("the axis was checked");
        let place = Place::Rows { name: self.name, axis, indices: indices.clone().into_dyn() };
        (Some(slice_gradient(x.dim(), place, as_rank(at.delta))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, O>>> {
        Some(take(self.name, self.axis, along.tangents.0.clone()?, along.operands.1.clone()))
    }

    fn cost(&self, (x, indices): (&Nd<A, D>, &Nd<usize, E>)) -> f64 {
        let rows = axis_of(self.axis, x.shape()).map_or(1, |axis| x.shape()[axis].max(1));
        200.0 + (x.len() / rows * indices.len()) as f64
    }
}

impl<A: Element, D: Rank, E: Rank, O: Rank> BuiltIn for Take<A, D, E, O> {
    const IS_PURE: bool = true;

    fn immediate_pullback(&self, at: &Immediate<'_, Self>, sink: &mut CotangentSink<'_>) -> bool {
        let (x, indices) = at.values;
        let axis = axis_of(self.axis, x.shape()).expect("the axis was checked");
        add_part_now(x, at.delta, sink, |whole, part| take_add(whole.into_dyn(), axis, indices, part.into_dyn()))
    }
}

/// The adjoint of [`Take`]: adds the slices of `part` to a tensor in row-major order, in their
/// order.
pub(crate) fn take_add<A: Element, E: Rank>(
    mut whole: ArrayViewMutD<'_, A>,
    axis: usize,
    indices: &Nd<usize, E>,
    part: ArrayViewD<'_, A>,
) {
    let (indices, part) = (indices.0.as_standard_layout(), part.as_standard_layout());
    let (indices, part) =
        (indices.as_slice().expect("in row-major order"), part.as_slice().expect("in row-major order"));
    let shape = around(whole.shape(), axis);
    kernels::add_taken(whole.as_slice_mut().expect("in row-major order"), shape, indices, part);
}

#[track_caller]
pub(crate) fn gather<A: Element, D: Rank>(
    axis: isize,
    x: Layer<Nd<A, D>>,
    indices: Layer<Nd<usize, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Gather { axis, place: Location::caller(), types: PhantomData }, (x, indices))
}

#[track_caller]
fn scatter_add<A: Element, D: Rank>(
    axis: isize,
    x: Layer<Nd<A, D>>,
    indices: Layer<Nd<usize, D>>,
    source: Layer<Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(ScatterAdd { axis, place: Location::caller(), types: PhantomData }, (x, indices, source))
}

/// The resolved axis, after a check of shapes and indices.
fn checked_axis(axis: isize, shape: &[usize], indices: &ArrayViewD<'_, usize>) -> Result<Axis> {
    let axis = fitting_axis(axis, shape, indices.shape())?;
    check(indices, axis, shape)?;
    Ok(Axis(axis))
}

/// The axis, if indices of this shape fit.
fn fitting_axis(axis: isize, shape: &[usize], indices: &[usize]) -> Result<usize> {
    let axis = axis_of(axis, shape)?;
    let fits = |(other, (&length, &indices)): (usize, (&usize, &usize))| other == axis || indices <= length;
    if shape.len() != indices.len() || !shape.iter().zip(indices).enumerate().all(fits) {
        return Err(Error::shape(format!(
            "indices of shape {indices:?} along axis {axis} of {shape:?}: they must have as many axes, and no other axis may be longer"
        )));
    }
    Ok(axis)
}

/// The part of a tensor that indices of this shape can address: all of `axis`, and of each other
/// axis as much as the indices have.
fn reachable(shape: &[usize], axis: Axis) -> impl FnMut(ndarray::AxisDescription) -> Slice {
    let shape = shape.to_vec();
    move |part| if part.axis == axis { Slice::from(..) } else { Slice::from(..shape[part.axis.index()]) }
}

#[derive(Clone)]
struct Gather<A, D> {
    axis: isize,
    place: &'static Location<'static>,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Gather<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<usize, D>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "gather"
    }

    fn value(&self, (x, indices): (&Nd<A, D>, &Nd<usize, D>)) -> Result<Nd<A, D>> {
        if let Some(view) = x.0.on_device()? {
            let axis = fitting_axis(self.axis, x.shape(), indices.shape())?;
            let at = (self.name(), self.place);
            let indices = checked_on_device(view_on(view.device(), indices)?, axis, x.shape(), at)?;
            return view.gather(axis, &indices).map(Nd::from_view);
        }
        let list = indices.0.view().into_dyn();
        let axis = checked_axis(self.axis, x.shape(), &list)?;
        if let (Some(elements), Some(places)) = (x.0.as_slice(), indices.0.as_slice())
            && is_same_beside(x.shape(), list.shape(), axis)
        {
            let picked = kernels::gather(elements, around(x.shape(), axis.index()), places);
            return Ok(Nd::from_elements(indices.dim(), picked));
        }
        let mut picked = ArrayD::from_elem(indices.shape(), A::zero());
        if list.is_empty() {
            return Ok(picked.into_dimensionality().expect("the same rank").into());
        }
        let x = x.0.view().into_dyn();
        let x = x.slice_each_axis(reachable(indices.shape(), axis));
        for ((x, indices), mut picked) in x.lanes(axis).into_iter().zip(list.lanes(axis)).zip(picked.lanes_mut(axis)) {
            picked.zip_mut_with(&indices, |picked, &index| *picked = x[index]);
        }
        Ok(picked.into_dimensionality().expect("the same rank").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let (x, indices) = at.values;
        let axis = axis_of(self.axis, x.shape()).expect("the axis was checked");
        let place = Place::Elements { axis, indices: indices.clone().into_dyn() };
        (Some(slice_gradient(x.dim(), place, as_rank(at.delta))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(gather(self.axis, along.tangents.0.clone()?, along.operands.1.clone()))
    }

    fn cost(&self, (_, indices): (&Nd<A, D>, &Nd<usize, D>)) -> f64 {
        200.0 + 2.0 * indices.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for Gather<A, D> {
    const IS_PURE: bool = true;

    fn immediate_pullback(&self, at: &Immediate<'_, Self>, sink: &mut CotangentSink<'_>) -> bool {
        let (x, indices) = at.values;
        let axis = axis_of(self.axis, x.shape()).expect("the axis was checked");
        add_part_now(x, at.delta, sink, |whole, part| gather_add(whole.into_dyn(), axis, indices, part.into_dyn()))
    }
}

/// The adjoint of [`Gather`]: adds each element of `part` at its index, in order.
pub(crate) fn gather_add<A: Element, E: Rank>(
    mut whole: ArrayViewMutD<'_, A>,
    axis: usize,
    indices: &Nd<usize, E>,
    part: ArrayViewD<'_, A>,
) {
    let list = indices.0.view().into_dyn();
    let (shape, axis) = (around(whole.shape(), axis), Axis(axis));
    let is_same = is_same_beside(whole.shape(), list.shape(), axis);
    if let (true, Some(whole), Some(indices)) = (is_same, whole.as_slice_mut(), list.as_slice()) {
        let part = part.as_standard_layout();
        return kernels::scatter_add(whole, shape, indices, part.as_slice().expect("in row-major order"));
    }
    if list.is_empty() {
        return;
    }
    let mut reached = whole.slice_each_axis_mut(reachable(list.shape(), axis));
    for ((mut sums, indices), part) in reached.lanes_mut(axis).into_iter().zip(list.lanes(axis)).zip(part.lanes(axis)) {
        for (&index, &term) in indices.iter().zip(part) {
            sums[index] = sums[index] + term;
        }
    }
}

/// Whether the other axes of a tensor and of its indices have the same lengths.
fn is_same_beside(shape: &[usize], indices: &[usize], axis: Axis) -> bool {
    let axis = axis.index();
    shape[..axis] == indices[..axis] && shape[axis + 1..] == indices[axis + 1..]
}

#[derive(Clone)]
struct ScatterAdd<A, D> {
    axis: isize,
    place: &'static Location<'static>,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for ScatterAdd<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<usize, D>>, Layer<Nd<A, D>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "scatter_add"
    }

    fn value(&self, (x, indices, source): (&Nd<A, D>, &Nd<usize, D>, &Nd<A, D>)) -> Result<Nd<A, D>> {
        if source.shape() != indices.shape() {
            let (source, indices) = (source.shape(), indices.shape());
            return Err(Error::shape(format!("a source of shape {source:?} for indices of shape {indices:?}")));
        }
        let places = [(x.0.device(), x.len()), (source.0.device(), source.len())];
        if let Some(device) = common_place(places)? {
            let axis = fitting_axis(self.axis, x.shape(), indices.shape())?;
            let (x, indices, source) = (view_on(device, x)?, view_on(device, indices)?, view_on(device, source)?);
            let indices = checked_on_device(indices, axis, &x.shape, (self.name(), self.place))?;
            let sums = View::new(device, A::ELEMENT, &x.shape)?;
            x.copy_to(&sums)?;
            sums.add_gathered(axis, &indices, source, ScatterOrder::InRuns)?;
            return Ok(Nd::from_view(sums));
        }
        let list = indices.0.view().into_dyn();
        let axis = checked_axis(self.axis, x.shape(), &list)?;
        let mut sums = row_major_copy(x.0.view().into_dyn());
        gather_add(sums.view_mut(), axis.index(), indices, source.0.view().into_dyn());
        Ok(sums.into_dimensionality().expect("the same rank").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let of_source = gather(self.axis, at.delta.clone(), at.operands.1.clone());
        (Some(at.delta.clone()), None, Some(of_source))
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let (x, _, source) = along.tangents;
        let Some(source) = source else { return x.clone() };
        let x = x.clone().unwrap_or_else(|| Layer::constant(along.values.0.zeros_like()));
        Some(scatter_add(self.axis, x, along.operands.1.clone(), source.clone()))
    }

    fn cost(&self, (x, indices, _): (&Nd<A, D>, &Nd<usize, D>, &Nd<A, D>)) -> f64 {
        200.0 + 0.5 * x.len() as f64 + 2.0 * indices.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for ScatterAdd<A, D> {
    const IS_PURE: bool = true;
}
