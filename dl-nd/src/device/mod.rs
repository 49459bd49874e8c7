//! Devices: tensors with elements in other memory than the host's.
//!
//! A tensor moves to a device with [`Nd::to`](crate::Nd::to), a module with
//! [`MoveModule::move_to`](crate::MoveModule::move_to). An operation on tensors of a device runs on
//! that device. Pointwise operations are recorded as expressions, as those on large tensors of the
//! host are, and become one kernel when their elements are needed. Kernels are recorded, too, until
//! the host reads or many are there; then equal kernels of different samples run as one launch. A
//! device runs its queue in order, so nothing waits until the host reads.
//!
//! Transfers are explicit. Operands on different places are an error at the operation, except for
//! a tensor with one element on the host, which goes along as a number. Reading elements of a
//! device as those of an array is an error too: [`Nd::to_host`](crate::Nd::to_host) copies them.
//!
//! A [`Device`] is implemented by other crates. [`Dry`] is one without hardware: it counts.
//!
//! ```
//! use dl_core::Differentiable;
//! use dl_nd::device::{Device, Dry};
//! use dl_nd::{Nd, ops::*};
//!
//! let dry = Dry::new();
//! let x = Nd::<f32, _>::from([[1.0, 2.0], [3.0, 4.0]]).to(&dry)?;
//! let y = (x * 2.0).exp().predict().wait()?; // one kernel
//! assert_eq!((dry.counters().launches, dry.counters().syncs), (1, 0));
//! assert!(y.to_host().is_ok());
//! assert_eq!(dry.counters().syncs, 1);
//! # dl_core::Result::Ok(())
//! ```

mod arena;
mod code;
mod dry;
mod lookup;
mod norm;
mod product;
mod queue;
mod reads;
mod scan;
mod sums;
mod view;
mod work;

#[doc(hidden)] // for the crates that implement devices
pub use arena::Arena;
pub(crate) use code::Program;
#[doc(hidden)]
pub use code::{Code, Comparison, Instruction};
pub use dry::Dry;
#[doc(hidden)]
pub use lookup::{Check, OutOfRange};
pub(crate) use product::{Factors, product};
#[doc(hidden)]
pub use queue::{Group, Queue};
pub(crate) use reads::Read;
#[doc(hidden)]
pub use reads::{Readout, Reads};
#[doc(hidden)]
pub use view::View;
#[doc(hidden)]
pub use work::{
    ConvForm, Convolve, Fold, Gather, Maxima, Product, RandomDrop, Region, Scan, ScanOp, Scatter, ScatterOrder, Sort,
    SparseProduct, Sum, SumOrder, Work,
};

use dl_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Memory and a queue of kernels.
///
/// A queue runs in order: what is launched first has ended before the next kernel reads its
/// results, and memory that is freed may be given to what is launched later.
///
/// ```
/// use dl_nd::Nd;
/// use dl_nd::device::{Device, Dry};
/// fn moved(x: &Nd, device: &std::sync::Arc<dyn Device>) -> dl_core::Result<Nd> {
///     println!("{} bytes to {}", 4 * x.len(), device.name());
///     x.to(device)
/// }
/// assert_eq!(moved(&Nd::from([[1.0, 2.0]]), &Dry::new())?.shape(), [1, 2]);
/// # dl_core::Result::Ok(())
/// ```
pub trait Device: Send + Sync + 'static {
    /// What error messages call this device.
    fn name(&self) -> String;

    /// What it has done so far. Launches that are recorded are queued before, so that they count.
    fn counters(&self) -> Counters;

    /// Memory with arbitrary contents.
    ///
    /// # Errors
    /// When there is none left.
    #[doc(hidden)]
    fn allocate(&self, bytes: usize) -> Result<Span>;

    /// Ends the use of this memory by everything that is launched from now on.
    #[doc(hidden)]
    fn free(&self, span: Span);

    /// Copies bytes to the device. They can be dropped when this returns.
    #[doc(hidden)]
    fn write(&self, to: Span, bytes: &[u8]) -> Result<()>;

    /// Records a kernel, which is queued by the next `flush` or `read` at the latest, with equal ones
    /// as one launch: see [`Queue`]. Everything that can be refused must be refused here.
    #[doc(hidden)]
    fn launch(&self, work: &Work<'_>) -> Result<()>;

    /// Queues what is recorded. If that fails, the device is lost: all that follows fails.
    #[doc(hidden)]
    fn flush(&self) -> Result<()>;

    /// Records a look at all elements of a view of `usize`. It has failed with the error for the
    /// first one that is neither below a number nor the excepted one, if there is one. A read of what
    /// was computed from a view with this check must have the error.
    #[doc(hidden)]
    fn check(&self, of: &View, below: usize, except: Option<usize>, error: OutOfRange) -> Result<Check>;

    /// Waits once for the queue, and copies bytes from the device. A read of no bytes waits for the
    /// checks only that its block depends on.
    #[doc(hidden)]
    fn read(&self, reads: &mut [Readout]) -> Result<()>;

    /// The reads that wait to be served.
    #[doc(hidden)]
    fn reads(&self) -> &Reads;
}

/// What a device has done since it was opened.
///
/// ```
/// use dl_nd::device::{Counters, Device, Dry};
/// assert_eq!(Dry::new().counters(), Counters::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Launches that were queued. Equal kernels that did not depend on each other were one.
    pub launches: u64,
    /// How often the host waited for the device.
    pub syncs: u64,
    /// Programs that were compiled.
    pub builds: u64,
    /// Bytes copied from the host to the device.
    pub bytes_up: u64,
    /// Bytes copied from the device to the host.
    pub bytes_down: u64,
    /// Bytes of the tensors that are on the device now.
    pub bytes_in_use: u64,
    /// The largest value that `bytes_in_use` had.
    pub peak_bytes: u64,
    /// Bytes of the memory that tensors have had so far: memory that is given out again does not
    /// count twice, so this no longer grows when the steps of a program are alike.
    pub bytes_reserved: u64,
}

impl Counters {
    /// Counts memory that is taken.
    #[doc(hidden)]
    pub fn take(&mut self, bytes: usize) {
        self.bytes_in_use += bytes as u64;
        self.peak_bytes = self.peak_bytes.max(self.bytes_in_use);
    }
}

/// A part of the memory of a device.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the allocation that it is in.
    pub slab: usize,
    /// Its first byte in that allocation.
    pub start: usize,
    pub bytes: usize,
}

/// Memory of a device, freed on drop.
#[doc(hidden)]
pub struct Buffer {
    pub(crate) span: Span,
    pub(crate) device: Arc<dyn Device>,
}

impl Buffer {
    pub(crate) fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Arc<Buffer>> {
        let span = device.allocate(bytes)?;
        Ok(Arc::new(Buffer { span, device: device.clone() }))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.device.free(self.span);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {}", self.span, self.device.name())
    }
}

/// Where the elements of a tensor are; none is the host.
pub(crate) type Place = Option<Arc<dyn Device>>;

fn name_of(place: Option<&Arc<dyn Device>>) -> String {
    place.map_or_else(|| "the host".to_owned(), |device| device.name())
}

/// The common place of the operands of an operation. An operand with one element on the host goes
/// along.
///
/// # Errors
/// When two operands lie on different places. The message names both.
pub(crate) fn common_place<'a>(
    operands: impl IntoIterator<Item = (Option<&'a Arc<dyn Device>>, usize)> + Clone,
) -> Result<Option<&'a Arc<dyn Device>>> {
    let Some(device) = operands.clone().into_iter().find_map(|(place, _)| place) else { return Ok(None) };
    let elsewhere = |&(place, len): &(Option<&Arc<dyn Device>>, usize)| match place {
        None => len != 1,
        Some(other) => !Arc::ptr_eq(other, device),
    };
    match operands.into_iter().enumerate().find(|(_, operand)| elsewhere(operand)) {
        None => Ok(Some(device)),
        Some((number, (place, _))) => Err(Error::invalid(format!(
            "operand {number} lies on {}, another one on {}: `to` and `to_host` move tensors",
            name_of(place),
            device.name()
        ))),
    }
}

/// The error of an operation that needs elements of a device on the host.
pub(crate) fn not_on_host(device: &dyn Device) -> Error {
    Error::invalid(format!(
        "this operation cannot run on {} yet, where an operand lies: `to_host` copies it to the host",
        device.name()
    ))
}
