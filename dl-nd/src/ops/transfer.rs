//! Transfers between the host and devices.

use crate::device::{Device, Place};
use crate::fusion::moved;
use crate::tensor::{Item, Nd, Rank};
use dl_core::{Along, At, BuiltIn, Differentiable, Layer, Module, NewValue, Primitive, Result};
use std::marker::PhantomData;
use std::sync::Arc;

impl<A: Item, D: Rank> Nd<A, D> {
    /// The device that has the elements; none for the host.
    ///
    /// ```
    /// use dl_nd::{Nd, device::Dry};
    /// let x = Nd::from([1.0_f32]);
    /// assert!(x.device().is_none() && x.to(&Dry::new())?.device().is_some());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn device(&self) -> Option<&Arc<dyn Device>> {
        self.0.device()
    }

    /// A copy on this device, or the tensor itself if it lies there.
    ///
    /// ```
    /// use dl_nd::{Nd, device::{Device, Dry}};
    /// let dry = Dry::new();
    /// Nd::from([1.0_f32, 2.0]).to(&dry)?;
    /// assert_eq!(dry.counters().bytes_up, 8);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the device has no memory left, or cannot have such elements.
    pub fn to(&self, device: &Arc<dyn Device>) -> Result<Self> {
        moved(self, &Some(device.clone()))
    }

    /// A copy on the host, or the tensor itself if it lies there. Blocks until the device has
    /// computed it.
    ///
    /// ```
    /// use dl_nd::{Nd, device::Dry};
    /// let x = Nd::from([1.0_f32]);
    /// assert_eq!(x.to_host()?, x);
    /// assert_eq!(x.to(&Dry::new())?.to_host()?.shape(), [1]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of the device.
    pub fn to_host(&self) -> Result<Self> {
        moved(self, &None)
    }
}

/// Transfers in layers. The delta is moved back.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::{Nd, TransferOps, device::Dry};
/// let (dry, w) = (Dry::new(), Weight::new(Nd::from([1.0_f32, 2.0])));
/// let y = w.to_device(&dry) * 2.0;
/// assert!(y.predict().wait()?.device().is_some());
/// assert!(y.to_host().predict().wait()?.device().is_none());
/// # dl_core::Result::Ok(())
/// ```
pub trait TransferOps<A: Item, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// A copy on this device.
    ///
    /// # Errors
    /// Those of [`Nd::to`].
    #[track_caller]
    fn to_device(&self, device: &Arc<dyn Device>) -> Layer<Nd<A, D>> {
        Layer::apply_built_in(Transfer { place: Some(device.clone()), types: PhantomData }, (self.layer(),))
    }

    /// A copy on the host. A thread of the pass waits for the device.
    ///
    /// # Errors
    /// Those of [`Nd::to_host`].
    #[track_caller]
    fn to_host(&self) -> Layer<Nd<A, D>> {
        Layer::apply_built_in(Transfer { place: None, types: PhantomData }, (self.layer(),))
    }
}

impl<X, A: Item, D: Rank> TransferOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[derive(Clone)]
struct Transfer<A, D> {
    place: Place,
    types: PhantomData<(A, D)>,
}

impl<A: Item, D: Rank> Primitive for Transfer<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        if self.place.is_some() { "to_device" } else { "to_host" }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        moved(x, &self.place)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A::Derivative, D>>>,) {
        let back = Transfer { place: at.values.0.device().cloned(), types: PhantomData };
        (Some(Layer::apply_built_in(back, (at.delta.clone(),))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A::Derivative, D>>> {
        let along_it = Transfer { place: self.place.clone(), types: PhantomData };
        Some(Layer::apply_built_in(along_it, (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        10_000.0 + x.nanoseconds_to_read() + x.len() as f64
    }
}

impl<A: Item, D: Rank> BuiltIn for Transfer<A, D> {}

/// Moves the weights and buffers of a module.
///
/// ```
/// use dl_core::Weight;
/// use dl_nd::{MoveModule, Nd, device::Dry};
/// let net = [Weight::new(Nd::from([1.0_f32])), Weight::new(Nd::from([2.0_f32]))];
/// net.move_to(&Dry::new())?;
/// assert!(net.iter().all(|w| w.value().device().is_some()));
/// net.move_to_host()?;
/// assert!(net.iter().all(|w| w.value().device().is_none()));
/// # dl_core::Result::Ok(())
/// ```
pub trait MoveModule: Module {
    /// Moves all tensors to a device, or none of them. Numbers stay on the host. Weights keep their
    /// identity.
    ///
    /// # Errors
    /// Those of [`Nd::to`], and when the module has a [`Table`](crate::Table). Then nothing has
    /// moved.
    #[track_caller]
    fn move_to(&self, device: &Arc<dyn Device>) -> Result<()> {
        move_all(self, Some(device.clone()))
    }

    /// Moves all tensors to the host, or none of them.
    ///
    /// # Errors
    /// Those of [`Nd::to_host`]. Then nothing has moved.
    #[track_caller]
    fn move_to_host(&self) -> Result<()> {
        move_all(self, None)
    }
}

impl<M: Module + ?Sized> MoveModule for M {}

#[track_caller]
fn move_all<M: Module + ?Sized>(module: &M, place: Place) -> Result<()> {
    let entries = module.entries().into_iter().filter(|entry| entry.tied_to().is_none());
    NewValue::set_all(entries.map(|entry| entry.moved(&place)).collect::<Result<_>>()?)
}
