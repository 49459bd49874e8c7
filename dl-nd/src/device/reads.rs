//! Reads of a device that wait together.
//!
//! A read is queued first, and served later: the thread that serves takes all queued reads of the
//! device, and waits for the device once. A thread whose read was taken by another one sleeps until
//! that one is done.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use super::{Device, Span, View};
use dl_core::{DType, Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// Bytes that are read from a block of memory.
pub struct Readout {
    pub block: Span,
    /// The first byte in the block.
    pub start: usize,
    pub bytes: Vec<u8>,
    /// Why the bytes have no meaning: a check that they depend on has failed.
    pub failed: Option<Error>,
}

impl Readout {
    /// Whether this is a number. Several are copied to one place first, since each copy to the host
    /// takes as long as a launch.
    pub fn is_number(&self) -> bool {
        matches!(self.bytes.len(), 4 | 8)
    }

    pub(super) fn result(self) -> Result<Vec<u8>> {
        self.failed.map_or(Ok(self.bytes), Err)
    }
}

/// The queued reads of a device. It does not own them: a read that nobody waits for is dropped.
#[derive(Default)]
pub struct Reads(Mutex<Vec<Weak<Cell>>>);

/// The place of the bytes of a read.
struct Cell {
    view: View,
    bytes: Mutex<Option<Result<Vec<u8>>>>,
    served: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reads {
    /// Serves all queued reads.
    fn serve(&self, device: &Arc<dyn Device>) {
        let queued = std::mem::take(&mut *lock(&self.0));
        let cells: Vec<Arc<Cell>> = queued.iter().filter_map(Weak::upgrade).collect();
        if cells.is_empty() {
            return;
        }
        let mut reads: Vec<Readout> = cells.iter().map(|cell| cell.view.readout()).collect();
        let waited = device.read(&mut reads);
        for (cell, read) in cells.iter().zip(reads) {
            *lock(&cell.bytes) = Some(waited.clone().and_then(|()| read.result()));
            cell.served.notify_all();
        }
    }
}

/// A queued read.
pub(crate) struct Read(Arc<Cell>);

impl Read {
    /// Queues a read of these elements.
    pub(crate) fn new(view: View) -> Result<Self> {
        let view = view.contiguous()?;
        let cell = Arc::new(Cell { view, bytes: Mutex::default(), served: Condvar::new() });
        lock(&cell.view.device().reads().0).push(Arc::downgrade(&cell));
        Ok(Read(cell))
    }

    /// The bytes. Serves the queued reads if this is one of them, and waits.
    pub(crate) fn wait(self) -> Result<Vec<u8>> {
        let cell = &*self.0;
        let device = cell.view.device();
        device.reads().serve(device);
        let mut bytes = lock(&cell.bytes);
        while bytes.is_none() {
            bytes = cell.served.wait(bytes).unwrap_or_else(PoisonError::into_inner);
        }
        bytes.take().expect("it was served")
    }

    /// The only element, which is a floating-point number.
    pub(crate) fn number(self) -> Result<f64> {
        let dtype = self.0.view.dtype;
        let bytes = &self.wait()?[..];
        Ok(match dtype {
            DType::F32 => f32::from_ne_bytes(bytes.try_into().expect("the bytes of a number")).into(),
            _ => f64::from_ne_bytes(bytes.try_into().expect("the bytes of a number")),
        })
    }
}
