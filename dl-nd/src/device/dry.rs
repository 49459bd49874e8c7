//! A device without hardware, which counts.

use super::{Counters, Device, OutOfRange, Reads, Span, View, Work};
use dl_core::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device that computes nothing: it counts kernels, waits and bytes, and every element that is
/// read from it is 0. It shows what a program would do on a device.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::device::{Device, Dry};
/// use dl_nd::{MoveModule, Nd, ops::*};
/// use dl_optim::Sgd;
///
/// let dry = Dry::new();
/// let w = Weight::new(Nd::<f32, _>::full([8, 4], 0.5));
/// w.move_to(&dry)?;
/// let x = Nd::<f32, _>::full([16, 8], 1.0).to(&dry)?;
/// let before = dry.counters();
/// x.matmul(&w).relu().sum().train(&Sgd::new(0.1)).wait()?;
/// let after = dry.counters();
/// assert_eq!(after.syncs - before.syncs, 1); // the value of the loss
/// assert_eq!(after.bytes_up, before.bytes_up);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Default)]
pub struct Dry {
    counters: Mutex<Counters>,
    reads: Reads,
}

impl Dry {
    /// A new device.
    ///
    /// ```
    /// use dl_nd::device::{Device, Dry};
    /// assert_eq!(Dry::new().name(), "a dry device");
    /// ```
    #[allow(clippy::new_ret_no_self, reason = "a device is used behind a shared pointer")]
    pub fn new() -> Arc<dyn Device> {
        Arc::new(Dry::default())
    }

    fn count(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for Dry {
    fn name(&self) -> String {
        "a dry device".to_owned()
    }

    fn counters(&self) -> Counters {
        *self.count()
    }

    fn allocate(&self, bytes: usize) -> Result<Span> {
        self.count().take(bytes);
        Ok(Span { slab: 0, start: 0, bytes })
    }

    fn free(&self, span: Span) {
        self.count().bytes_in_use -= span.bytes as u64;
    }

    fn write(&self, _: Span, bytes: &[u8]) -> Result<()> {
        self.count().bytes_up += bytes.len() as u64;
        Ok(())
    }

    fn launch(&self, work: &Work<'_>) -> Result<()> {
        self.count().launches += work.launches();
        Ok(())
    }

    fn check(&self, _: &View, _: usize, _: Option<usize>, _: OutOfRange) -> Result<()> {
        self.count().launches += 1;
        Ok(())
    }

    fn read(&self, _: Span, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(0);
        let mut count = self.count();
        count.syncs += 1;
        count.bytes_down += bytes.len() as u64;
        Ok(())
    }

    fn read_all(&self, reads: &mut [(Span, Vec<u8>)]) -> Result<()> {
        let mut count = self.count();
        count.syncs += 1;
        count.bytes_down += reads.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        Ok(())
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }
}
