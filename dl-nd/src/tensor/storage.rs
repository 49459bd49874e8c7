//! Storage of the elements of a tensor: an array, memory of a device, or a lazy expression that is
//! computed on first access.

use super::{Element, Item, LazyTensor, Rank, aligned, dim_of};
use crate::device::{Device, View, not_on_host};
use dl_core::{Result as Fallible, buffers, parallel};
use ndarray::{ArcArray, Array, ArrayView, Axis, Dimension};
use std::ops::Deref;
use std::sync::Arc;

/// The elements of a tensor. Access as an array computes a lazy expression. The memory of unshared
/// elements is recycled on drop.
#[derive(Clone)]
pub(crate) struct Storage<A: Item, D: Rank>(StorageRepr<A, D>);

#[derive(Clone)]
enum StorageRepr<A: Item, D: Rank> {
    Array(ArcArray<A, D>),
    Lazy(Arc<LazyTensor<A, D>>),
    Device(Arc<OnDevice<D>>),
    /// Placeholder after the contents were moved out; dropped without effect.
    Moved,
}

/// Elements on a device. The shape is that of the view.
struct OnDevice<D> {
    shape: D,
    view: View,
}

impl<A: Item, D: Rank> Storage<A, D> {
    /// Elements on a device.
    pub(crate) fn from_view(view: View) -> Self {
        Storage(StorageRepr::Device(Arc::new(OnDevice { shape: dim_of(&view.shape), view })))
    }

    /// The device that has the elements, or will have them; none for the host.
    pub(crate) fn device(&self) -> Option<&Arc<dyn Device>> {
        match &self.0 {
            StorageRepr::Array(_) | StorageRepr::Moved => None,
            StorageRepr::Lazy(lazy) => lazy.device(),
            StorageRepr::Device(on_device) => Some(on_device.view.device()),
        }
    }

    /// The elements on their device, for which a lazy expression is computed; none on the host.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn on_device(&self) -> Fallible<Option<View>> {
        match &self.0 {
            StorageRepr::Lazy(lazy) if lazy.device().is_some() => lazy.try_compute()?.on_device(),
            StorageRepr::Device(on_device) => Ok(Some(on_device.view.clone())),
            _ => Ok(None),
        }
    }

    /// The elements as a slice, if they are on the host and in row-major order. This must be asked
    /// instead of the array, which a device does not have.
    pub(crate) fn as_slice(&self) -> Option<&[A]> {
        if self.device().is_some() { None } else { (**self).as_slice() }
    }

    /// Whether the elements are on the host and in row-major order.
    pub(crate) fn is_standard_layout(&self) -> bool {
        self.device().is_none() && (**self).is_standard_layout()
    }

    pub(crate) fn from_lazy(lazy: Arc<LazyTensor<A, D>>) -> Self {
        Storage(StorageRepr::Lazy(lazy))
    }

    /// The expression, or `None` if it has been computed.
    pub(crate) fn lazy(&self) -> Option<&Arc<LazyTensor<A, D>>> {
        match &self.0 {
            StorageRepr::Lazy(lazy) if lazy.computed().is_none() => Some(lazy),
            _ => None,
        }
    }

    /// The lengths of the axes, without computing the elements.
    #[inline]
    pub(crate) fn shape(&self) -> &[usize] {
        match &self.0 {
            StorageRepr::Array(array) => array.shape(),
            StorageRepr::Lazy(lazy) => lazy.shape().slice(),
            StorageRepr::Device(on_device) => on_device.shape.slice(),
            StorageRepr::Moved => unreachable!("the contents were moved out"),
        }
    }

    /// The shape as a dimension.
    pub(crate) fn dim(&self) -> D {
        match &self.0 {
            StorageRepr::Lazy(lazy) => lazy.shape().clone(),
            StorageRepr::Device(on_device) => on_device.shape.clone(),
            _ => self.raw_dim(),
        }
    }

    pub(crate) fn into_array(mut self) -> ArcArray<A, D> {
        match std::mem::replace(&mut self.0, StorageRepr::Moved) {
            StorageRepr::Array(array) => array,
            StorageRepr::Lazy(lazy) => {
                lazy.compute();
                match Arc::try_unwrap(lazy) {
                    Ok(lazy) => lazy.into_computed().into_array(),
                    Err(shared) => (**shared.compute()).clone(),
                }
            }
            StorageRepr::Device(on_device) => not_on_host(&**on_device.view.device()).raise(),
            StorageRepr::Moved => unreachable!("the contents were moved out"),
        }
    }

    /// The array if its elements are not shared, else the unchanged storage.
    pub(crate) fn try_into_unique(self) -> Result<Array<A, D>, Self> {
        self.into_array().try_into_owned_nocopy().map_err(Self::from)
    }

    /// The array for writing; shared elements are copied first.
    pub(crate) fn array_mut(&mut self) -> &mut ArcArray<A, D> {
        if let StorageRepr::Lazy(_) | StorageRepr::Device(_) = self.0 {
            let elements = Storage(std::mem::replace(&mut self.0, StorageRepr::Moved));
            self.0 = StorageRepr::Array(elements.into_array());
        }
        match &mut self.0 {
            StorageRepr::Array(array) => {
                if !array.is_unique() {
                    *array = compact_copy(array.view()).into_shared();
                }
                array
            }
            _ => unreachable!("the lazy expression was replaced by an array"),
        }
    }
}

impl<A: Element, D: Rank> Storage<A, D> {
    /// Aligns the elements to a cache line if they are many and in row-major order. Worthwhile for
    /// tensors that are read repeatedly, such as weights.
    pub(crate) fn align(&mut self) {
        self.realign_if(|array| !aligned::is_aligned(array.as_ptr()));
    }

    /// Copies the elements to aligned memory of the pool if they are many and in row-major order.
    pub(crate) fn copy_to_pool(&mut self) {
        self.realign_if(|_| true);
    }

    /// Like [`align`](Storage::align), for elements that will be written to. Shared elements must
    /// be copied anyway, so the copy is made here and aligned.
    pub(crate) fn align_for_write(&mut self) {
        self.realign_if(|array| !aligned::is_aligned(array.as_ptr()) || !array.is_unique());
    }

    fn realign_if(&mut self, is_wanted: impl FnOnce(&mut ArcArray<A, D>) -> bool) {
        if let StorageRepr::Array(array) = &mut self.0
            && aligned::is_worth_aligning::<A>(array.len())
            && is_wanted(array)
            && let Some(copy) = aligned::aligned_copy(&array.view())
        {
            *self = copy.into_shared().into();
        }
    }
}

/// A copy of the elements that keeps a contiguous row-major or column-major layout; its memory then
/// comes from the buffer pool.
pub(crate) fn compact_copy<A: Item, D: Dimension>(x: ArrayView<'_, A, D>) -> Array<A, D> {
    let by_rows = |x: &ArrayView<'_, A, D>| {
        let copy = Array::from_shape_vec(x.raw_dim(), A::copied(x.as_slice()?));
        Some(copy.expect("as many elements"))
    };
    by_rows(&x)
        .or_else(|| by_rows(&x.clone().reversed_axes()).map(Array::reversed_axes))
        .unwrap_or_else(|| x.to_owned())
}

/// A copy in row-major order, which several threads make if it is large.
pub fn row_major_copy<A: Element, D: Dimension>(x: ArrayView<'_, A, D>) -> Array<A, D> {
    const PART_LEN: usize = 1 << 15;
    let elements = buffers::take_filled(x.len());
    let mut copy = Array::from_shape_vec(x.raw_dim(), elements).expect("as many elements");
    let axis = (0..x.ndim()).find(|&axis| x.len_of(Axis(axis)) > 1).filter(|_| x.len() >= 2 * PART_LEN);
    let Some(axis) = axis.map(Axis) else {
        copy.assign(&x);
        return copy;
    };
    let each = x.len_of(axis).div_ceil(x.len() / PART_LEN);
    let mut parts: Vec<_> = copy.axis_chunks_iter_mut(axis, each).zip(x.axis_chunks_iter(axis, each)).collect();
    let nanoseconds = x.len() as f64 / parts.len() as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |_, (copy, x)| copy.assign(x));
    drop(parts);
    copy
}

impl<A: Item, D: Rank> From<ArcArray<A, D>> for Storage<A, D> {
    fn from(array: ArcArray<A, D>) -> Self {
        Storage(StorageRepr::Array(array))
    }
}

impl<A: Item, D: Rank> Deref for Storage<A, D> {
    type Target = ArcArray<A, D>;

    fn deref(&self) -> &ArcArray<A, D> {
        match &self.0 {
            StorageRepr::Array(array) => array,
            StorageRepr::Lazy(lazy) => lazy.compute(),
            StorageRepr::Device(on_device) => not_on_host(&**on_device.view.device()).raise(),
            StorageRepr::Moved => unreachable!("the contents were moved out"),
        }
    }
}

impl<A: Item, D: Rank> Drop for Storage<A, D> {
    fn drop(&mut self) {
        let StorageRepr::Array(array) = std::mem::replace(&mut self.0, StorageRepr::Moved) else { return };
        if let Ok(array) = array.try_into_owned_nocopy() {
            A::recycle(array.into_raw_vec_and_offset().0);
        }
    }
}
