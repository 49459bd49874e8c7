//! Copies of tensors between the host and devices.

use super::{Item, Nd, Rank};
use crate::device::{Place, View};
use dl_core::{Error, Numbers, Result};
use pulp::bytemuck;
use std::sync::Arc;

/// The elements of a view in row-major order, copied to the host. Waits for the device.
pub(crate) fn elements_on_host<A: Item>(view: &View) -> Result<Vec<A>> {
    A::of_device_numbers(Numbers::from_le_bytes(view.dtype, &view.read()?)?)
}

/// A copy of a tensor on another place; the tensor itself if it lies there.
pub(crate) fn moved<A: Item, D: Rank>(x: &Nd<A, D>, place: &Place) -> Result<Nd<A, D>> {
    match (x.0.device(), place) {
        (None, None) => Ok(x.clone()),
        (Some(here), Some(there)) if Arc::ptr_eq(here, there) => Ok(x.clone()),
        (None, Some(device)) => {
            let Some(numbers) = A::to_device_numbers(x.clone().into_vec()) else {
                return Err(Error::invalid("such elements cannot lie on a device"));
            };
            let to = View::new(device, numbers.dtype(), x.shape())?;
            match &numbers {
                Numbers::F32(numbers) => device.write(to.span(), bytemuck::cast_slice(numbers))?,
                Numbers::F64(numbers) => device.write(to.span(), bytemuck::cast_slice(numbers))?,
                _ => device.write(to.span(), &numbers.to_le_bytes())?,
            }
            Ok(Nd::from_view(to))
        }
        (Some(_), _) => {
            let view = x.0.on_device()?.expect("it lies on a device");
            moved(&Nd::from_elements(x.dim(), elements_on_host::<A>(&view)?), place)
        }
    }
}
