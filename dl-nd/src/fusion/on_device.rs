//! Pointwise expressions on a device: the values that the host would compile, as one kernel.

use super::compile::DeviceProgram;
use crate::device::{Device, Place, Read, View, Work, common_place};
use crate::tensor::{Element, Expr, Item, LazyTensor, Nd, Rank, Storage, moved, unit_shape};
use dl_core::{Result, later};
use ndarray::Ix1;
use std::sync::Arc;

/// Launches the kernel of a lazy tensor.
pub(crate) fn compute_on_device<A: Element, D: Rank>(lazy: &LazyTensor<A, D>) -> Result<Storage<A, D>> {
    compute_all_on_device(&[lazy]).map(|mut computed| computed.remove(0))
}

/// Launches one kernel for lazy tensors of the same shape on the same device.
pub(super) fn compute_all_on_device<A: Element, D: Rank>(tensors: &[&LazyTensor<A, D>]) -> Result<Vec<Storage<A, D>>> {
    let shape = tensors[0].shape().slice();
    let device = tensors[0].device().expect("lazy tensors of a device");
    let DeviceProgram { code, numbers, operands, kept } = DeviceProgram::of(tensors)?;
    let new = |_: &usize| View::new(device, A::ELEMENT, shape);
    let to: Vec<View> = code.results.iter().map(new).collect::<Result<_>>()?;
    if !to[0].is_empty() {
        device.launch(&Work::Map { code: &code, numbers: &numbers, of: &operands, to: &to })?;
    }
    kept.into_iter().for_each(|(lazy, result)| lazy.keep(Storage::from_view(to[result].clone())));
    Ok(to.into_iter().take(tensors.len()).map(Storage::from_view).collect())
}

/// A tensor with equal elements on this place. On a device nothing is stored before it is needed.
pub(crate) fn filled_on<A: Element, D: Rank>(shape: D, number: A, place: Place) -> Nd<A, D> {
    if place.is_none() {
        return Nd::full(shape, number);
    }
    let number = Nd::full(unit_shape::<D>(), number);
    Nd::from_lazy(Arc::new(LazyTensor::new(shape, 1, 0.0, Expr::Repeat(number), place)))
}

/// The elements of a tensor on a device. One element on the host is copied.
///
/// # Errors
/// When the tensor lies on another place.
pub(crate) fn view_on<A: Item, D: Rank>(device: &Arc<dyn Device>, x: &Nd<A, D>) -> Result<View> {
    common_place([(Some(device), 1), (x.0.device(), x.len())])?;
    Ok(moved(x, &Some(device.clone()))?.0.on_device()?.expect("it lies on a device"))
}

/// A table that a kernel reads, copied to its device.
pub(crate) fn table<A: Item>(device: &Arc<dyn Device>, elements: Vec<A>) -> Result<View> {
    let table = Nd::from_elements(Ix1(elements.len()), elements);
    Ok(moved(&table, &Some(device.clone()))?.0.on_device()?.expect("it lies on a device"))
}

/// A number that follows from the only element of a view, as the value of the operation that calls
/// this: see [`later`].
pub(crate) fn number_later<A: Element>(view: View, follows: impl FnOnce(A) -> A + Send + 'static) -> Result<A> {
    let read = Read::new(view)?;
    later(move || read.number().map(|number| follows(A::of(number))))
}
