//! Slices of tensors, as views, and padding.

use crate::device::View;
use crate::fusion::{self, is_small};
use crate::kernels::zip_in_parts;
use crate::ops::axes::{Axes, AxisList, axis_of, position_of};
use crate::ops::pad::{PadMode, pad_with};
use crate::ops::reduce::fill_on;
use crate::ops::reshape::{ReshapeTarget, as_rank, reshape};
use crate::ops::slice_gradient::{Place, add_elements, add_part_now, slice_gradient};
use crate::tensor::{Element, Nd, Rank, Storage, check_size, filled_array};
use dl_core::{
    Along, At, BlockOp, BuiltIn, CotangentSink, Differentiable, Error, Immediate, Layer, Part, Primitive, Result,
};
use ndarray::{Axis, IntoDimension, Ix0, IxDyn, RemoveAxis, Slice, SliceArg, SliceInfoElem};
use std::convert::identity;
use std::marker::PhantomData;

/// Slices, splits, flips and padding. Slices are views and copy no elements. The delta of a slice
/// is scattered into zeros.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, SliceOps};
/// use ndarray::s;
/// let x = Nd::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(x.row(1).predict().wait()?, Nd::from([4.0, 5.0, 6.0]));
/// assert_eq!(x.slice(s![.., 1..]).predict().wait()?, Nd::from([[2.0, 3.0], [5.0, 6.0]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait SliceOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// Slices with ranges, steps, single indices and new axes, as given by the macro
    /// [`s!`](ndarray::s). Negative positions count from the end. A negative step reverses the
    /// range, which must not end before its start: `s![0..3;-1]` is `x[2::-1]` of NumPy. For a
    /// tensor of dynamic rank: `x.slice(s![1.., 2].as_ref())`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// use ndarray::{NewAxis, s};
    /// let x = Nd::from([1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.slice(s![..;2]).predict().wait()?, Nd::from([1.0, 3.0]));
    /// assert_eq!(x.slice(s![-3..;-1]).predict().wait()?, Nd::from([4.0, 3.0, 2.0]));
    /// assert_eq!(x.slice(s![NewAxis, 1..2]).predict().wait()?, Nd::from([[2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a position is out of range, a range ends before its start, or a step is 0.
    #[track_caller]
    fn slice<I: SliceArg<D>>(&self, narrow: I) -> Layer<Nd<A, I::OutDim>>
    where
        I::OutDim: Rank,
    {
        slice(&self.layer(), "slice", SliceSpec::Elements(narrow.as_ref().into()))
    }

    /// Slices along one axis, by a range or by a [`Slice`] with a step. Negative positions count
    /// from the end.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// assert_eq!(Nd::from([1.0, 2.0, 3.0]).slice_axis(0, 1..).predict().wait()?, Nd::from([2.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the axis does not exist, or the range is out of bounds or ends before its start.
    #[track_caller]
    fn slice_axis(&self, axis: isize, range: impl Into<Slice>) -> Layer<Nd<A, D>> {
        slice(&self.layer(), "slice_axis", SliceSpec::Axis(axis, range.into()))
    }

    /// The subtensor at index `i` of the first axis, which is removed: `[n, …] → […]`; of a matrix,
    /// a row. A negative index counts from the last one.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).row(-1).predict().wait()?, Nd::from([3.0, 4.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the index is out of range.
    #[track_caller]
    fn row(&self, i: isize) -> Layer<Nd<A, D::Smaller>>
    where
        D: RemoveAxis,
        D::Smaller: Rank,
    {
        slice(&self.layer(), "row", SliceSpec::Row(i))
    }

    /// Splits an axis into parts of these lengths, which must add up to the length of the axis.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// let parts = Nd::from([1.0, 2.0, 3.0]).split(0, &[1, 2]);
    /// assert_eq!(parts[1].predict().wait()?, Nd::from([2.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the axis does not exist, or the lengths do not add up to its length; every returned
    /// layer fails with this error.
    #[track_caller]
    fn split(&self, axis: isize, lengths: &[usize]) -> Vec<Layer<Nd<A, D>>> {
        let (whole, total) = (self.layer(), lengths.iter().fold(0_usize, |sum, &length| sum.saturating_add(length)));
        let mut start = 0;
        let mut parts = Vec::with_capacity(lengths.len());
        for &length in lengths {
            parts.push(slice(&whole, "split", SliceSpec::SliceView { axis, start, length, total: Some(total) }));
            start = start.saturating_add(length);
        }
        parts
    }

    /// Splits an axis of length `n` into `count` parts of length `⌈n / count⌉`; the last parts may
    /// be shorter or empty. PyTorch's `chunk` omits empty parts.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// let parts = Nd::from([1.0, 2.0, 3.0]).chunk(0, 2);
    /// assert_eq!(parts[0].predict().wait()?, Nd::from([1.0, 2.0]));
    /// assert_eq!(parts[1].predict().wait()?, Nd::from([3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn chunk(&self, axis: isize, count: usize) -> Vec<Layer<Nd<A, D>>> {
        let whole = self.layer();
        let mut parts = Vec::new();
        for number in 0..count {
            parts.push(slice(&whole, "chunk", SliceSpec::Chunk { axis, number, count }));
        }
        parts
    }

    /// Reverses the order of the elements along these axes.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).flip(1).predict().wait()?, Nd::from([[2.0, 1.0], [4.0, 3.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn flip(&self, axes: impl Axes<D>) -> Layer<Nd<A, D>> {
        slice(&self.layer(), "flip", SliceSpec::Flip(axes.into_list()))
    }

    /// Pads each axis with `value`. `widths` has a pair for each axis: the number of elements added
    /// before and after. This is NumPy's `pad` with `mode='constant'`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// assert_eq!(Nd::from([[1.0]]).pad(&[(0, 1), (1, 0)], 9.0).predict().wait()?, Nd::from([[9.0, 1.0], [9.0, 9.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the number of pairs differs from the number of axes.
    #[track_caller]
    fn pad(&self, widths: &[(usize, usize)], value: A) -> Layer<Nd<A, D>> {
        Layer::apply_built_in(Pad { widths: widths.into(), value, rank: PhantomData }, (self.layer(),))
    }

    /// Pads each axis with elements of this tensor: mirrored, repeated or from its other end.
    /// `widths` has a pair for each axis, as in [`pad`](SliceOps::pad).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, PadMode, SliceOps};
    /// let y = Nd::from([[1.0, 2.0]]).pad_with(&[(0, 1), (1, 0)], PadMode::Replicate);
    /// assert_eq!(y.predict().wait()?, Nd::from([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the number of pairs differs from the number of axes, or a width is larger than the
    /// [mode](PadMode) takes.
    #[track_caller]
    fn pad_with(&self, widths: &[(usize, usize)], mode: PadMode) -> Layer<Nd<A, D>> {
        pad_with(self.layer(), widths, mode)
    }

    /// The only element of a tensor with one element, as a number, in a layer. The inverse is
    /// [`to_tensor`](crate::NumberOps::to_tensor).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ReduceOps, SliceOps};
    /// assert_eq!(Nd::from([1.0, 2.0]).sum_axis(0).item().predict().wait()?, 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when there are more or fewer elements than one.
    #[track_caller]
    fn item(&self) -> Layer<A> {
        element(reshape(&self.layer(), ReshapeTarget::Shape(Ix0())), Ix0())
    }

    /// The element at this index, a number.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, SliceOps};
    /// assert_eq!(Nd::from([[1.0, 2.0], [3.0, 4.0]]).at([1, 0]).predict().wait()?, 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the index is out of range.
    #[track_caller]
    fn at(&self, index: impl IntoDimension<Dim = D>) -> Layer<A> {
        element(self.layer(), index.into_dimension())
    }
}

impl<X, A: Element, D: Rank> SliceOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
fn slice<A: Element, D: Rank, E: Rank>(x: &Layer<Nd<A, D>>, name: &'static str, spec: SliceSpec) -> Layer<Nd<A, E>> {
    Layer::apply_built_in(SliceView { name, spec, types: PhantomData }, (x.clone(),))
}

/// The `length` elements of an axis that begin at `start`.
#[track_caller]
pub(crate) fn narrow<A: Element, D: Rank>(
    x: &Layer<Nd<A, D>>,
    axis: usize,
    start: usize,
    length: usize,
) -> Layer<Nd<A, D>> {
    slice(x, "slice_axis", SliceSpec::SliceView { axis: axis as isize, start, length, total: None })
}

/// Slices by one element for each axis. All must be within bounds.
#[track_caller]
pub(crate) fn slice_elements<A: Element, D: Rank, E: Rank>(
    x: &Layer<Nd<A, D>>,
    elements: Box<[SliceInfoElem]>,
) -> Layer<Nd<A, E>> {
    slice(x, "slice", SliceSpec::Elements(elements))
}

/// A slice as the caller specified it, not yet resolved for a shape.
#[derive(Clone)]
enum SliceSpec {
    Elements(Box<[SliceInfoElem]>),
    Axis(isize, Slice),
    Row(isize),
    /// A range of an axis. The axis must have length `total`, if given.
    SliceView {
        axis: isize,
        start: usize,
        length: usize,
        total: Option<usize>,
    },
    Chunk {
        axis: isize,
        number: usize,
        count: usize,
    },
    Flip(AxisList),
}

const ALL: SliceInfoElem = SliceInfoElem::Slice { start: 0, end: None, step: 1 };

fn range(start: usize, end: usize) -> SliceInfoElem {
    let position = |position: usize| isize::try_from(position).unwrap_or(isize::MAX);
    SliceInfoElem::Slice { start: position(start), end: Some(position(end)), step: 1 }
}

/// The start and end of chunk `number` of `count` along an axis of this length.
fn chunk(length: usize, number: usize, count: usize) -> [usize; 2] {
    let each = length.div_ceil(count);
    [number, number + 1].map(|number| number.saturating_mul(each).min(length))
}

impl SliceSpec {
    /// The axis and the range, if this is a part of an axis ([`SliceView`](SliceSpec::SliceView) or
    /// [`Chunk`](SliceSpec::Chunk)) and is within bounds.
    fn range(&self, shape: &[usize]) -> Option<(Axis, Slice)> {
        let (axis, start, end) = match *self {
            SliceSpec::SliceView { axis, start, length, total } => {
                let axis = axis_of(axis, shape).ok()?;
                let end = start.checked_add(length)?;
                if end > shape[axis] || total.is_some_and(|total| total != shape[axis]) {
                    return None;
                }
                (axis, start, end)
            }
            SliceSpec::Chunk { axis, number, count } => {
                let axis = axis_of(axis, shape).ok()?;
                let [start, end] = chunk(shape[axis], number, count);
                (axis, start, end)
            }
            _ => return None,
        };
        Some((Axis(axis), Slice::from(start..end)))
    }

    /// Resolves the slice for a shape: one element for each axis, all within bounds.
    fn of(&self, shape: &[usize]) -> Result<Vec<SliceInfoElem>> {
        let along = |axis: usize, element: SliceInfoElem| {
            let mut elements = vec![ALL; shape.len()];
            elements[axis] = element;
            elements
        };
        let elements = match self {
            SliceSpec::Elements(elements) => elements.to_vec(),
            SliceSpec::Axis(axis, Slice { start, end, step }) => {
                along(axis_of(*axis, shape)?, SliceInfoElem::Slice { start: *start, end: *end, step: *step })
            }
            SliceSpec::Row(_) if shape.is_empty() => return Err(Error::shape("a tensor without axes has no rows")),
            SliceSpec::Row(i) if position_of(*i, shape[0]).is_none() => {
                return Err(Error::invalid(format!(
                    "row {i} of a tensor of shape {shape:?}, which has {} rows",
                    shape[0]
                )));
            }
            SliceSpec::Row(i) => along(0, SliceInfoElem::Index(*i)),
            SliceSpec::SliceView { axis, start, length, total } => {
                let axis = axis_of(*axis, shape)?;
                if let Some(total) = total.filter(|&total| total != shape[axis]) {
                    return Err(Error::shape(format!(
                        "the lengths of the parts add up to {total}, but axis {axis} of {shape:?} has {}",
                        shape[axis]
                    )));
                }
                along(axis, range(*start, start.saturating_add(*length)))
            }
            SliceSpec::Chunk { axis, number, count } => {
                let axis = axis_of(*axis, shape)?;
                let [start, end] = chunk(shape[axis], *number, *count);
                along(axis, range(start, end))
            }
            SliceSpec::Flip(axes) => {
                let mut elements = vec![ALL; shape.len()];
                for axis in axes.of(shape)? {
                    elements[axis] = SliceInfoElem::Slice { start: 0, end: None, step: -1 };
                }
                elements
            }
        };
        check(&elements, shape)?;
        Ok(elements)
    }
}

fn check(elements: &[SliceInfoElem], shape: &[usize]) -> Result<()> {
    let of_axes = || elements.iter().filter(|element| !element.is_new_axis());
    if of_axes().count() != shape.len() {
        let (found, axes) = (of_axes().count(), shape.len());
        return Err(Error::invalid(format!(
            "a slice of {found} axes for a tensor of shape {shape:?}, which has {axes}"
        )));
    }
    for (axis, (&length, element)) in shape.iter().zip(of_axes()).enumerate() {
        let edge = |position: isize| position == length as isize || position_of(position, length).is_some();
        let fits = match *element {
            SliceInfoElem::Index(index) => position_of(index, length).is_some(),
            SliceInfoElem::Slice { step: 0, .. } => {
                return Err(Error::invalid(format!("the step along axis {axis} of {shape:?} is 0")));
            }
            SliceInfoElem::Slice { start, end, .. } => {
                let from_start = |at: isize| if at < 0 { at + length as isize } else { at };
                let end = end.unwrap_or(length as isize);
                if edge(start) && edge(end) && from_start(start) > from_start(end) {
                    return Err(Error::invalid(format!(
                        "{start}..{end} along axis {axis} of {shape:?} ends before its start; a negative step \
                         reverses a range that is written from its first to its last element"
                    )));
                }
                edge(start) && edge(end)
            }
            SliceInfoElem::NewAxis => true,
        };
        if !fits {
            let what = match *element {
                SliceInfoElem::Index(index) => format!("position {index}"),
                SliceInfoElem::Slice { start, end, .. } => {
                    format!("{start}..{}", end.map_or(String::new(), |end| end.to_string()))
                }
                SliceInfoElem::NewAxis => String::new(),
            };
            return Err(Error::invalid(format!(
                "{what} does not lie in axis {axis} of {shape:?}, whose length is {length}"
            )));
        }
    }
    Ok(())
}

/// The part of a tensor on a device that a checked slice selects.
pub(crate) fn part_on_device(view: View, elements: &[SliceInfoElem]) -> View {
    elements
        .iter()
        .fold((view, 0), |(view, axis), element| match *element {
            SliceInfoElem::NewAxis => (view.inserted(axis), axis + 1),
            SliceInfoElem::Index(index) => {
                let index = position_of(index, view.shape[axis]).expect("the slice was checked");
                (view.sliced(axis, index, 1, 1).without(axis), axis)
            }
            SliceInfoElem::Slice { start, end, step } => {
                let length = view.shape[axis];
                let from_start = |at: isize| if at < 0 { at + length as isize } else { at } as usize;
                let (start, end) = (from_start(start), end.map_or(length, from_start));
                let count = (end - start).div_ceil(step.unsigned_abs());
                // a negative step begins at the last element of the range
                let first = if step < 0 && count > 0 { end - 1 } else { start };
                (view.sliced(axis, first, count, step), axis + 1)
            }
        })
        .0
}

#[derive(Clone)]
struct SliceView<A, D, E> {
    name: &'static str,
    spec: SliceSpec,
    types: PhantomData<(A, D, E)>,
}

impl<A: Element, D: Rank, E: Rank> Primitive for SliceView<A, D, E> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, E>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, E>> {
        if let Some(view) = x.0.on_device()? {
            return Ok(Nd(Storage::from_view(part_on_device(view, &self.spec.of(x.shape())?))));
        }
        if let Some((axis, range)) = self.spec.range(x.shape()) {
            let mut narrow = x.array();
            narrow.slice_axis_inplace(axis, range);
            return Ok(Nd::from(narrow.into_dimensionality().expect("the rank of the tensor")));
        }
        let elements = self.spec.of(x.shape())?;
        let narrow = x.array().into_dyn().slice_move(&elements[..]);
        Ok(Nd::from(narrow.into_dimensionality().expect("the rank of the part")))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let shape = at.values.0.dim();
        let elements = self.spec.of(shape.slice()).expect("the slice was checked").into();
        (Some(slice_gradient(shape, Place::Slice(elements), as_rank(at.delta))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, E>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_compute()
    }
}

/// The elements that a slice selects from a tensor of this shape in row-major order, if they are
/// runs at equal distances.
pub(crate) fn part_of(elements: &[SliceInfoElem], shape: &[usize]) -> Option<Part> {
    let mut part = Part::whole(1);
    let mut of_axes = elements.iter().rev().filter(|element| !element.is_new_axis());
    let mut each = 1;
    for &length in shape.iter().rev() {
        let element = of_axes.next()?;
        let (start, len) = match *element {
            SliceInfoElem::Index(index) => (position_of(index, length)?, 1),
            SliceInfoElem::Slice { start, end, step: 1 } => {
                let from_start = |at: isize| if at < 0 { at + length as isize } else { at } as usize;
                let start = from_start(start);
                (start, from_start(end.unwrap_or(length as isize)).checked_sub(start)?)
            }
            _ => return None,
        };
        part.start += start * each;
        part = match (part.runs, part.len == each) {
            (_, _) if len == 1 => part,
            (1, true) => Part { len: len * each, stride: len * each, ..part },
            (1, false) => Part { runs: len, stride: each, ..part },
            (runs, _) if runs * part.stride == each => Part { runs: runs * len, ..part },
            _ => return None,
        };
        each *= length;
    }
    Some(part)
}

impl<A: Element, D: Rank, E: Rank> BuiltIn for SliceView<A, D, E> {
    const IS_PURE: bool = true;

    /// If it has all of the first axis, however long that is.
    fn is_by_rows(&self, _: &[bool], (x,): (&Nd<A, D>,), _: &Nd<A, E>) -> bool {
        let is_later = |axis: isize| axis_of(axis, x.shape()).is_ok_and(|axis| axis > 0);
        match &self.spec {
            SliceSpec::Elements(elements) => elements.first() == Some(&ALL),
            SliceSpec::Axis(axis, _) | SliceSpec::SliceView { axis, .. } | SliceSpec::Chunk { axis, .. } => {
                is_later(*axis)
            }
            SliceSpec::Row(_) | SliceSpec::Flip(_) => false,
        }
    }

    fn block_op(&self, (x,): (&Nd<A, D>,), value: &Nd<A, E>) -> Option<BlockOp> {
        if !is_small(x) || value.is_empty() {
            return None;
        }
        part_of(&self.spec.of(x.shape()).ok()?, x.shape()).map(BlockOp::Part)
    }

    fn immediate_pullback(&self, at: &Immediate<'_, Self>, sink: &mut CotangentSink<'_>) -> bool {
        add_part_now(at.values.0, at.delta, sink, |mut whole, part| {
            if let Some((axis, range)) = self.spec.range(whole.shape()) {
                whole.slice_axis_inplace(axis, range);
                add_elements(whole, part);
            } else {
                let elements = self.spec.of(whole.shape()).expect("the slice was checked");
                add_elements(whole.into_dyn().slice_move(&elements[..]), part.into_dyn());
            }
        })
    }
}

/// Pads a tensor with a constant.
#[derive(Clone)]
struct Pad<A, D> {
    widths: Box<[(usize, usize)]>,
    value: A,
    rank: PhantomData<D>,
}

impl<A: Element, D: Rank> Pad<A, D> {
    /// The padded shape, and the slice of it that holds the operand.
    fn padded(&self, shape: &[usize]) -> Result<(D, Box<[SliceInfoElem]>)> {
        let widths = &self.widths;
        if widths.len() != shape.len() {
            let (widths, axes) = (widths.len(), shape.len());
            return Err(Error::invalid(format!(
                "{widths} pairs of widths for a tensor of shape {shape:?}, which has {axes} axes"
            )));
        }
        let mut whole = D::zeros(shape.len());
        let mut elements = Vec::with_capacity(shape.len());
        for (axis, (&(before, after), &length)) in widths.iter().zip(shape).enumerate() {
            let sum = before.checked_add(length).and_then(|sum| sum.checked_add(after));
            whole[axis] = sum.unwrap_or(usize::MAX);
            elements.push(range(before, before.saturating_add(length)));
        }
        check_size::<A>(whole.slice())?;
        Ok((whole, elements.into()))
    }
}

impl<A: Element, D: Rank> Primitive for Pad<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "pad"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let (shape, elements) = self.padded(x.shape())?;
        if let Some(view) = x.0.on_device()? {
            let whole = View::new(view.device(), view.dtype, shape.slice())?;
            whole.fill(self.value.to_f64().expect("a number"))?;
            view.copy_to(&part_on_device(whole.clone(), &elements))?;
            return Ok(Nd(Storage::from_view(whole)));
        }
        let mut whole = filled_array(shape, self.value);
        let inner = whole.view_mut().into_dyn();
        zip_in_parts(inner.slice_move(&elements[..]), x.0.view().into_dyn(), |to, &x| *to = x);
        Ok(whole.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (_, elements) = self.padded(at.values.0.shape()).expect("the widths were checked");
        (Some(slice_elements(at.delta, elements)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let pad = Pad { widths: self.widths.clone(), value: A::zero(), rank: PhantomData };
        Some(Layer::apply_built_in(pad, (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + self.padded(x.shape()).map_or(0, |(shape, _)| shape.size()) as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for Pad<A, D> {
    const IS_PURE: bool = true;
}

#[track_caller]
fn element<A: Element, D: Rank>(x: Layer<Nd<A, D>>, index: D) -> Layer<A> {
    Layer::apply_built_in(ElementAt { index, element: PhantomData }, (x,))
}

#[derive(Clone)]
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
        let is_there = index.len() == x.shape().len() && index.iter().zip(x.shape()).all(|(at, length)| at < length);
        if is_there && let Some(view) = x.0.on_device()? {
            let element = index.iter().fold(view, |view, &at| view.sliced(0, at, 1, 1).without(0));
            return fusion::number_later(element, identity);
        }
        if is_there && let Some(&element) = x.0.view().into_dyn().get(index) {
            return Ok(element);
        }
        Err(Error::invalid(format!("there is no element {index:?} in a tensor of shape {:?}", x.shape())))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let place = at.values.0.0.device().cloned();
        let index = self.index.slice().iter().map(|&index| SliceInfoElem::Index(index as isize)).collect();
        (Some(slice_gradient(at.values.0.dim(), Place::Slice(index), fill_on(at.delta, IxDyn(&[]), place))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<A>> {
        Some(element(along.tangents.0.clone()?, self.index.clone()))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        20.0 + x.nanoseconds_to_read() + x.nanoseconds_to_compute()
    }
}

impl<A: Element, D: Rank> BuiltIn for ElementAt<A, D> {
    const IS_PURE: bool = true;
    const CAN_BE_LATER: bool = true;
}
