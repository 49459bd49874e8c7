//! The tensor type: a shared, copy-on-write array as data of layers.

use super::storage::row_major_copy;
use super::{
    Derivative, Discrete, Element, Item, LazyTensor, Rank, Storage, aligned, check_size, dim_of, moved, unit_shape,
};
use crate::device::{View, common_place};
use dl_core::parallel::memory::Pooled;
use dl_core::{
    BasicBlock, BlockKernel, BlockView, Data, Delta, Differentiable, Do, ElementType, Elements, Error, Layer, Result,
    ShapeList, SideEffects, Tape, buffers, parallel,
};
use ndarray::{ArcArray, Array, ArrayView, Axis, Ix0, Ix1, Ix2, Ix3, IxDyn, NdIndex};
use std::borrow::Cow;
use std::ops::{Index, Range};
use std::sync::Arc;

/// A tensor: an array of numbers with its rank in the type.
///
/// Tensors of `f32` and `f64` are differentiable. Tensors of `bool` and of integers are plain data:
/// masks, labels, indices ([`Item`]).
///
/// The elements are shared and copy-on-write: clone, transposition and reshape of a contiguous
/// tensor do not copy them. In expressions a tensor is a constant: no gradient flows to it.
///
/// Conversion [`From`] an [`Array`], an [`ArcArray`] or a `Vec` does not copy the elements, nor do
/// [`view`](Nd::view), [`into_array`](Nd::into_array) and [`into_vec`](Nd::into_vec) for an
/// unshared tensor; [`from_vec`](Nd::from_vec) may copy them.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ops::*};
/// let a = Nd::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// assert_eq!((&a * 10.0).predict().wait()?, Nd::from([[10.0, 20.0], [30.0, 40.0]]));
/// assert_eq!(a[[1, 0]], 3.0);
/// assert_eq!(a.shape(), [2, 2]);
/// # dl_core::Result::Ok(())
/// ```
pub struct Nd<A: Item = f32, D: Rank = Ix2>(pub(crate) Storage<A, D>);

impl<A: Item, D: Rank> Nd<A, D> {
    /// A tensor of this shape, from its elements in row-major order.
    ///
    /// The elements keep their memory, except `f32` or `f64` of 16 KB to 16 MB: these are copied to
    /// pooled memory that starts at a cache line, since loads of wide registers are slower across
    /// cache lines.
    ///
    /// ```
    /// let m = dl_nd::Nd::from_vec([2, 2], vec![1.0, 2.0, 3.0, 4.0])?;
    /// assert_eq!(m[[1, 0]], 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the number of elements differs from the product of the shape.
    pub fn from_vec<S: ndarray::IntoDimension<Dim = D>>(shape: S, elements: Vec<A>) -> Result<Self> {
        let len = elements.len();
        let mut tensor = Self::from_vec_unaligned(shape, elements)?;
        if aligned::is_worth_aligning::<A>(len) && !aligned::is_too_large_to_copy::<A>(len) {
            // A vector that is aligned by chance is copied, too. If the tensor replaces one in memory of
            // the pool, the pool would otherwise keep that memory, and its size would depend on addresses.
            A::copy_to_pool(&mut tensor.0);
        }
        Ok(tensor)
    }

    /// Like [`from_vec`](Nd::from_vec), without a copy for alignment.
    pub(crate) fn from_vec_unaligned<S: ndarray::IntoDimension<Dim = D>>(shape: S, elements: Vec<A>) -> Result<Self> {
        let (shape, found) = (shape.into_dimension(), elements.len());
        let wrong_len = || Error::shape(format!("{found} elements do not make a tensor of shape {:?}", shape.slice()));
        let made = Array::from_shape_vec(shape.clone(), elements);
        made.map(Self::from).map_err(|_| check_size::<A>(shape.slice()).err().unwrap_or_else(wrong_len))
    }

    /// The lengths of its axes.
    ///
    /// ```
    /// assert_eq!(dl_nd::Nd::from([[1.0_f32, 2.0, 3.0]]).shape(), [1, 3]);
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// The number of its elements.
    ///
    /// ```
    /// assert_eq!(dl_nd::Nd::from([[1.0_f32, 2.0, 3.0]]).len(), 3);
    /// ```
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether it has no elements.
    ///
    /// ```
    /// assert!(!dl_nd::Nd::from([1.0_f32]).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A view of the elements, for everything that `ndarray` can do.
    ///
    /// ```
    /// assert_eq!(dl_nd::Nd::from([1.0_f32, 2.0]).view().sum(), 3.0);
    /// ```
    pub fn view(&self) -> ArrayView<'_, A, D> {
        self.0.view()
    }

    /// The elements in row-major order, without a copy if they are in that order and not shared.
    /// (Elements that do not start at the beginning of their allocation, as those of large computed
    /// tensors, are moved there.)
    ///
    /// ```
    /// assert_eq!(dl_nd::Nd::from([[1.0_f32, 2.0], [3.0, 4.0]]).into_vec(), [1.0, 2.0, 3.0, 4.0]);
    /// ```
    pub fn into_vec(self) -> Vec<A> {
        let array = self.into_array();
        let len = array.len();
        if array.is_standard_layout() {
            let (mut elements, offset) = array.into_raw_vec_and_offset();
            let start = offset.unwrap_or(0);
            elements.truncate(start + len);
            if start > 0 {
                elements.drain(..start);
                elements.shrink_to_fit();
            }
            elements
        } else {
            array.iter().cloned().collect()
        }
    }

    /// The same tensor with rank `IxDyn`.
    ///
    /// ```
    /// assert_eq!(dl_nd::Nd::from([[1.0_f32, 2.0]]).into_dyn().shape(), [1, 2]);
    /// ```
    pub fn into_dyn(self) -> Nd<A, IxDyn> {
        if let Some(view) = self.0.on_device().unwrap_or_else(Error::raise) {
            return Nd::from_view(view);
        }
        self.0.into_array().into_dyn().into()
    }

    /// The elements as an array that may share them with other tensors, without a copy.
    ///
    /// ```
    /// let row = dl_nd::Nd::from([[1.0, 2.0], [3.0, 4.0]]).into_shared().slice_move(ndarray::s![1, ..]);
    /// assert_eq!(dl_nd::Nd::from(row), dl_nd::Nd::from([3.0, 4.0]));
    /// ```
    pub fn into_shared(self) -> ArcArray<A, D> {
        self.0.into_array()
    }

    /// The elements as an owned array, without a copy if they are not shared.
    ///
    /// ```
    /// assert_eq!(dl_nd::Nd::from([1.0_f32, 2.0]).into_array(), ndarray::arr1(&[1.0, 2.0]));
    /// ```
    pub fn into_array(self) -> Array<A, D> {
        self.0.into_array().into_owned()
    }
}

impl<A: Item, D: Rank> Nd<A, D> {
    /// A tensor of this shape with all elements equal to `element`.
    ///
    /// # Panics
    /// When there is no memory for a tensor of this shape.
    ///
    /// ```
    /// assert_eq!(dl_nd::Nd::full([2], 0.5), dl_nd::Nd::from([0.5, 0.5]));
    /// ```
    pub fn full<S: ndarray::IntoDimension<Dim = D>>(shape: S, element: A) -> Self {
        Array::from_elem(shape.into_dimension(), element).into()
    }

    pub(crate) fn dim(&self) -> D {
        self.0.dim()
    }

    /// A tensor on a device.
    pub(crate) fn from_view(view: View) -> Self {
        Nd(Storage::from_view(view))
    }

    /// A tensor of this shape from its elements in row-major order. Their number must match the
    /// shape.
    pub(crate) fn from_elements(shape: D, elements: Vec<A>) -> Self {
        Array::from_shape_vec(shape, elements).expect("one element each").into()
    }

    /// The elements as a shared array.
    pub(crate) fn array(&self) -> ArcArray<A, D> {
        ArcArray::clone(&self.0)
    }

    /// The elements in row-major order, for writing.
    pub(crate) fn row_mut(&mut self) -> &mut [A]
    where
        A: Element,
    {
        if !self.view().is_standard_layout() {
            *self = row_major_copy(self.view()).into();
        }
        self.0.array_mut().as_slice_mut().expect("they are in row-major order and not shared")
    }

    /// A tensor from an unevaluated expression.
    pub(crate) fn from_lazy(lazy: Arc<LazyTensor<A, D>>) -> Self {
        Nd(Storage::from_lazy(lazy))
    }

    /// The unevaluated expression, or `None` if the elements are available.
    pub(crate) fn lazy(&self) -> Option<&Arc<LazyTensor<A, D>>> {
        self.0.lazy()
    }

    /// Estimated time in nanoseconds until all elements are available: 0 if they are.
    pub(crate) fn nanoseconds_to_compute(&self) -> f64 {
        self.lazy().map_or(0.0, |lazy| lazy.nanoseconds_to_compute())
    }

    /// Estimated time in nanoseconds until all elements are available in row-major order. Computed
    /// tensors are in that order.
    pub(crate) fn nanoseconds_to_arrange(&self) -> f64 {
        let is_view = self.lazy().is_none() && self.0.device().is_none() && !self.0.is_standard_layout();
        if is_view { self.len() as f64 } else { self.nanoseconds_to_compute() }
    }

    /// Estimated time in nanoseconds to read an element. An operation that waits for a device must
    /// not run inline: others wait then, and an inline operation that fails is run again, but a
    /// device reports an index that is out of range once.
    pub(crate) fn nanoseconds_to_read(&self) -> f64 {
        if self.0.device().is_some() { 100_000.0 } else { 0.0 }
    }

    /// A tensor with the single element `number`, which broadcasts to every shape.
    pub(crate) fn single(number: A) -> Self {
        Self::full(unit_shape::<D>(), number)
    }
}

/// An array of this shape, in memory from the buffer pool. If the shape is too large, the panic of
/// the allocation becomes an error of the pass.
pub(crate) fn filled_array<A: Pooled, D: Rank>(shape: D, element: A) -> Array<A, D> {
    let len = shape.size_checked().unwrap_or(usize::MAX);
    Array::from_shape_vec(shape, filled(len, element)).expect("as many elements")
}

/// `len` zeros, in memory from the buffer pool.
pub(crate) fn zeros<A: Element>(len: usize) -> Vec<A> {
    filled(len, A::zero())
}

fn filled<A: Pooled>(len: usize, element: A) -> Vec<A> {
    const PART_LEN: usize = 1 << 18;
    if len < 2 * PART_LEN {
        let mut elements = buffers::take(len);
        elements.resize(len, element);
        return elements;
    }
    let mut elements = buffers::take_filled(len);
    let mut parts: Vec<&mut [A]> = elements.chunks_mut(PART_LEN).collect();
    parallel::for_each_mut(&mut parts, 0.1 * PART_LEN as f64, |_, part| part.fill(element));
    elements
}

/// A tensor of this shape; the number of elements must match.
pub(crate) fn tensor_of_shape<A: Element, D: Rank>(shape: &[usize], elements: Vec<A>) -> Nd<A, D> {
    Nd::from_elements(dim_of(shape), elements)
}

impl<A: Discrete, D: Rank> Nd<A, D> {
    /// The numbers as indices or labels.
    ///
    /// ```
    /// use dl_nd::Nd;
    /// assert_eq!(Nd::from([3_i64, 0]).to_indices()?, Nd::from([3_usize, 0]));
    /// assert!(Nd::from([3_i64, -1]).to_indices().unwrap_err().to_string().contains("-1"));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a number is negative or too large for `usize`.
    pub fn to_indices(&self) -> Result<Nd<usize, D>> {
        if let Some((place, x)) = self.0.iter().enumerate().find(|(_, x)| x.to_index().is_none()) {
            return Err(Error::invalid(format!("element number {place} is {x:?}, which cannot be an index")));
        }
        Ok(self.to_indices_or(0))
    }

    /// The numbers as indices or labels, with `other` for numbers that cannot be an index, such as
    /// the labels −1 or −100 that mark positions to ignore.
    ///
    /// ```
    /// # use dl_core::Differentiable;
    /// use dl_nd::{CrossEntropy, LossOps, Nd};
    /// let labels = Nd::from([1_i64, -100]).to_indices_or(usize::MAX);
    /// let loss = Nd::from([[0.0_f64, 0.0], [9.0, 9.0]])
    ///     .cross_entropy_with(labels, &CrossEntropy::new().ignore_index(usize::MAX));
    /// assert_eq!(loss.predict().wait()?, 2_f64.ln());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn to_indices_or(&self, other: usize) -> Nd<usize, D> {
        self.0.mapv(|x| x.to_index().unwrap_or(other)).into()
    }
}

impl<A: Item, D: Rank> Clone for Nd<A, D> {
    fn clone(&self) -> Self {
        Nd(self.0.clone())
    }
}

impl<A: Item, D: Rank> PartialEq for Nd<A, D> {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

/// The element at an index.
///
/// ```
/// assert_eq!(dl_nd::Nd::from([[1.0_f32, 2.0], [3.0, 4.0]])[[1, 0]], 3.0);
/// ```
///
/// When the index is out of bounds. For layers, [`at`](crate::SliceOps::at) reports an error of the
/// pass instead.
impl<A: Item, D: Rank, I: NdIndex<D>> Index<I> for Nd<A, D> {
    type Output = A;

    fn index(&self, index: I) -> &A {
        &self.0[index]
    }
}

impl<A: Item, D: Rank> From<Array<A, D>> for Nd<A, D> {
    fn from(array: Array<A, D>) -> Self {
        array.into_shared().into()
    }
}

impl<A: Item, D: Rank> From<ArcArray<A, D>> for Nd<A, D> {
    fn from(array: ArcArray<A, D>) -> Self {
        Nd(array.into())
    }
}

impl<A: Item, D: Rank> From<ArrayView<'_, A, D>> for Nd<A, D> {
    fn from(view: ArrayView<'_, A, D>) -> Self {
        view.to_owned().into()
    }
}

impl<A: Item> From<Vec<A>> for Nd<A, Ix1> {
    fn from(elements: Vec<A>) -> Self {
        Array::from_vec(elements).into()
    }
}

impl<A: Item> From<&[A]> for Nd<A, Ix1> {
    fn from(elements: &[A]) -> Self {
        elements.to_vec().into()
    }
}

impl<A: Item> FromIterator<A> for Nd<A, Ix1> {
    fn from_iter<I: IntoIterator<Item = A>>(elements: I) -> Self {
        elements.into_iter().collect::<Vec<A>>().into()
    }
}

/// A number as a tensor without axes.
impl<A: Item> From<A> for Nd<A, Ix0> {
    fn from(element: A) -> Self {
        ndarray::arr0(element).into()
    }
}

impl<A: Item, const N: usize> From<[A; N]> for Nd<A, Ix1> {
    fn from(elements: [A; N]) -> Self {
        Vec::from(elements).into()
    }
}

impl<A: Item, const M: usize, const N: usize> From<[[A; N]; M]> for Nd<A, Ix2> {
    fn from(rows: [[A; N]; M]) -> Self {
        ndarray::arr2(&rows).into()
    }
}

impl<A: Item, const L: usize, const M: usize, const N: usize> From<[[[A; N]; M]; L]> for Nd<A, Ix3> {
    fn from(planes: [[[A; N]; M]; L]) -> Self {
        ndarray::arr3(&planes).into()
    }
}

/// The tape of a constant: its backward pass has no effect.
pub(crate) fn constant_tape<T: Data>(value: T) -> Do<Tape<T, T::Delta>> {
    Do::from_fn(move || std::future::ready(Ok(Tape::new(value.clone(), |_| SideEffects::none()))))
}

impl<A: Item, D: Rank> Differentiable for Nd<A, D> {
    type Data = Nd<A, D>;
    type Delta = Nd<A::Derivative, D>;

    fn forward(&self) -> Do<Tape<Self, Self::Delta>> {
        constant_tape(self.clone())
    }

    #[track_caller]
    fn layer(&self) -> Layer<Self> {
        Layer::constant(self.clone())
    }

    #[track_caller]
    fn into_layer(self) -> Layer<Self> {
        Layer::constant(self)
    }
}

impl<A: Item, D: Rank> Data for Nd<A, D> {
    type Delta = Nd<A::Derivative, D>;

    fn one(&self) -> Nd<A::Derivative, D> {
        A::ones_like(self)
    }

    fn push_shape(&self, shape: &mut ShapeList) -> bool {
        if D::NDIM.is_none() {
            shape.extend(&[self.shape().len()]);
        }
        shape.extend(self.shape());
        true
    }

    const IN_BLOCKS: Option<ElementType> = A::IN_BLOCKS;

    fn elements(&self) -> Option<Elements<'_>> {
        if self.0.device().is_some() {
            return None;
        }
        let elements = self.0.as_slice();
        A::elements(elements.map_or_else(|| Cow::Owned(self.0.iter().copied().collect()), Cow::Borrowed))
    }

    fn compile_block(block: BasicBlock) -> Option<Box<dyn BlockKernel>> {
        A::compile_block(block)
    }

    fn block_view(&self, start: usize) -> Option<BlockView> {
        let (shape, end) = (self.dim(), start + self.len());
        Some(Box::new(move |array| {
            let array: &ArcArray<A, Ix1> = array.downcast_ref().expect("the results of a block of this type");
            let mut part = array.clone();
            part.slice_axis_inplace(Axis(0), (start..end).into());
            Nd::from(part.into_shape_with_order(shape.clone()).expect("as many elements")).into_value()
        }))
    }

    fn rows(&self) -> Option<usize> {
        self.shape().first().copied().filter(|_| self.0.device().is_none())
    }

    fn stacked(parts: &[&Self]) -> Option<Self> {
        let (first, len) = (parts.first()?, parts.iter().map(|part| part.len()).sum());
        let (mut shape, mut elements) = (first.dim(), Vec::with_capacity(len));
        for part in parts {
            match part.0.as_slice() {
                Some(part) => elements.extend_from_slice(part),
                None => elements.extend(part.0.iter().copied()),
            }
        }
        *shape.slice_mut().first_mut()? = parts.iter().map(|part| part.shape()[0]).sum();
        Some(Nd::from_elements(shape, elements))
    }

    fn rows_in(&self, rows: Range<usize>) -> Option<Self> {
        let mut part = self.array();
        part.slice_axis_inplace(Axis(0), rows.into());
        Some(part.into())
    }

    fn check_delta(&self, delta: &Nd<A::Derivative, D>) -> Result<()> {
        let (shape, found) = (self.shape(), delta.shape());
        if found == shape {
            return common_place([(self.0.device(), usize::MAX), (delta.0.device(), usize::MAX)]).map(|_| ());
        }
        Err(Error::shape(format!("a derivative of shape {found:?} for a tensor of shape {shape:?}")))
    }

    fn non_finite(&self) -> Option<f64> {
        self.0.iter().find_map(|&number| number.non_finite())
    }

    fn bytes(&self) -> usize {
        self.len() * size_of::<A>()
    }

    fn describe(&self) -> String {
        let name = std::any::type_name::<A>();
        format!("{}{:?}", name.rsplit("::").next().unwrap_or(name), self.shape())
    }

    fn settle(tensors: &[&Self]) {
        A::realize(tensors);
    }

    fn beside(self, other: &Self) -> Result<Self> {
        moved(&self, &other.0.device().cloned())
    }

    fn on_host(self) -> Result<Self> {
        moved(&self, &None)
    }

    /// In row-major order and aligned to a cache line.
    fn at_rest(self) -> Self {
        if let Some(view) = self.0.on_device().unwrap_or_else(Error::raise) {
            return Nd::from_view(view.contiguous().unwrap_or_else(Error::raise));
        }
        let mut rest: Self =
            if self.view().is_standard_layout() { self } else { self.view().as_standard_layout().into_owned().into() };
        A::align(&mut rest.0);
        rest
    }
}

impl<A: Derivative, D: Rank> Delta for Nd<A, D> {
    #[track_caller]
    fn sum(terms: Vec<Layer<Self>>) -> Layer<Self> {
        A::sum_of_tensors(terms)
    }

    fn add_in_place(&mut self, other: &Self) -> bool {
        A::add_in_place(self, other)
    }

    #[track_caller]
    fn scale(layer: &Layer<Self>, factor: f64) -> Layer<Self> {
        A::scaled_tensor(layer, factor)
    }

    fn squared_norm(&self) -> f64 {
        A::squared_norm(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Expr;
    use ndarray::{Array, Dim};

    #[test]
    fn time_estimates_of_lazy_and_transposed_tensors_cover_remaining_work() {
        let (rows, columns) = (200, 300);
        let len = (rows * columns) as f64;
        let computed: Nd<f32, ndarray::Ix2> = Nd::full(Dim((rows, columns)), 0.5);
        let estimates = |x: &Nd<f32, ndarray::Ix2>| (x.nanoseconds_to_compute(), x.nanoseconds_to_arrange());
        assert_eq!(estimates(&computed), (0.0, 0.0));
        let transposed = Nd::from(Array::<f32, _>::zeros((columns, rows)).reversed_axes());
        assert_eq!(estimates(&transposed), (0.0, len));
        let pending = Expr::Unary(dl_core::Unary::Exp, computed).of_shape(Dim((rows, columns)));
        let (exp, to_compute) = (dl_core::Unary::Exp.cost(), estimates(&pending).0);
        assert!(to_compute > len && to_compute < exp * len, "in registers of several numbers");
        assert_eq!(estimates(&pending), (to_compute, to_compute));
        let twice = Expr::Unary(dl_core::Unary::Exp, pending.clone()).of_shape(Dim((rows, columns)));
        assert_eq!(twice.nanoseconds_to_compute(), 2.0 * to_compute);
        pending.view();
        assert_eq!(estimates(&pending), (0.0, 0.0));
    }
}
