//! Batches on a device.

use crate::batches::Batches;
use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::loader::Position;
use dl_core::{Do, Result};
use dl_nd::device::Device;
use dl_nd::{Item, Nd, Rank};
use std::fmt;
use std::sync::Arc;

/// A batch that can be moved to a device: tensors, and tuples of batches. Strings stay on the host.
///
/// ```
/// use dl_data::ToDevice;
/// use dl_nd::{Nd, device::Dry};
/// let (x, names) = (Nd::from([1.0_f32, 2.0]), vec!["a".to_owned()]).to_device(&Dry::new())?;
/// assert!(x.device().is_some());
/// # dl_core::Result::Ok(())
/// ```
pub trait ToDevice: Sized {
    /// The batch on this device.
    ///
    /// # Errors
    /// Those of [`Nd::to`].
    fn to_device(self, device: &Arc<dyn Device>) -> Result<Self>;
}

impl<A: Item, D: Rank> ToDevice for Nd<A, D> {
    fn to_device(self, device: &Arc<dyn Device>) -> Result<Self> {
        self.to(device)
    }
}

impl ToDevice for Vec<String> {
    fn to_device(self, _: &Arc<dyn Device>) -> Result<Self> {
        Ok(self)
    }
}

macro_rules! tuples {
    ($($T:ident $t:ident),*) => {
        impl<$($T: ToDevice),*> ToDevice for ($($T,)*) {
            fn to_device(self, device: &Arc<dyn Device>) -> Result<Self> {
                let ($($t,)*) = self;
                Ok(($($t.to_device(device)?,)*))
            }
        }
    };
}

tuples!(A a, B b);
tuples!(A a, B b, C c);
tuples!(A a, B b, C c, D d);

/// The batches of one epoch on a device, made by [`Batches::to`].
///
/// ```
/// use dl_data::{InMemory, Loader, OnDevice};
/// let loader = Loader::new(InMemory(vec![0.5_f32; 4]), 2);
/// let batches: OnDevice<_> = loader.epoch(0)?.to(&dl_nd::device::Dry::new());
/// assert_eq!(batches.len(), 2);
/// # dl_core::Result::Ok(())
/// ```
pub struct OnDevice<D: Dataset>
where
    D::Item: Collate,
{
    batches: Batches<D>,
    device: Arc<dyn Device>,
}

impl<D: Dataset + 'static> Batches<D>
where
    D::Item: Collate,
    <D::Item as Collate>::Batch: ToDevice,
{
    /// The same batches on a device. A batch is copied when it is taken, which does not wait for
    /// the device.
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// use dl_nd::device::{Device, Dry};
    /// let dry = Dry::new();
    /// for batch in Loader::new(InMemory(vec![0.5_f32; 4]), 2).epoch(0)?.to(&dry) {
    ///     assert!(batch?.device().is_some());
    /// }
    /// assert_eq!((dry.counters().bytes_up, dry.counters().syncs), (16, 0));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn to(self, device: &Arc<dyn Device>) -> OnDevice<D> {
        OnDevice { batches: self, device: device.clone() }
    }
}

impl<D: Dataset + 'static> OnDevice<D>
where
    D::Item: Collate,
    <D::Item as Collate>::Batch: ToDevice,
{
    /// As [`Batches::next_batch`].
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// let batches = Loader::new(InMemory(vec![0.5_f32; 4]), 2).epoch(0)?.to(&dl_nd::device::Dry::new());
    /// assert!(batches.next_batch().wait()?.expect("there are two").device().is_some());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn next_batch(&self) -> Do<Option<<D::Item as Collate>::Batch>> {
        let (next, device) = (self.batches.next_batch(), self.device.clone());
        Do::from_fn(move || {
            let (next, device) = (next.clone(), device.clone());
            async move { next.await?.map(|batch| batch.to_device(&device)).transpose() }
        })
    }

    /// As [`Batches::position`].
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// let batches = Loader::new(InMemory(vec![0.5_f32; 4]), 2).epoch(3)?.to(&dl_nd::device::Dry::new());
    /// assert_eq!(batches.position().epoch, 3);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn position(&self) -> Position {
        self.batches.position()
    }
}

impl<D: Dataset + 'static> Iterator for OnDevice<D>
where
    D::Item: Collate,
    <D::Item as Collate>::Batch: ToDevice,
{
    type Item = Result<<D::Item as Collate>::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.batches.next()?.and_then(|batch| batch.to_device(&self.device)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.batches.size_hint()
    }
}

impl<D: Dataset + 'static> ExactSizeIterator for OnDevice<D>
where
    D::Item: Collate,
    <D::Item as Collate>::Batch: ToDevice,
{
}

impl<D: Dataset> fmt::Debug for OnDevice<D>
where
    D::Item: Collate,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDevice").field("batches", &self.batches).field("device", &self.device.name()).finish()
    }
}
