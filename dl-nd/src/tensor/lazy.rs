//! Lazy tensors. Pointwise operations on large tensors build an expression, which is compiled into
//! one fused kernel when the elements are first read.
//!
//! A sequence of pointwise operations thereby reads its operands once and writes its result once.
//! Intermediate results are not stored. A cheap operation is recomputed by each kernel that needs
//! it (the backward pass, for instance), which costs less than to load its result. The result of an
//! expensive operation, such as an exponential, is cached if another handle to it exists.

use super::aligned::AlignedBuf;
use super::{Item, Nd, Rank, Storage};
use crate::device::{Device, Place};
use dl_core::parallel::backoff::wait;
use dl_core::{Binary, Error, Result, Unary};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Marks a lazy tensor as being computed. The mark is removed on drop, also when a panic (out of
/// memory) unwinds.
struct ComputeGuard<'a>(&'a AtomicBool);

impl<'a> ComputeGuard<'a> {
    fn new(computing: &'a AtomicBool) -> Self {
        computing.store(true, Ordering::Relaxed);
        ComputeGuard(computing)
    }
}

impl Drop for ComputeGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A tensor of known shape, given by the operation that computes it.
pub(crate) struct LazyTensor<A: Item, D: Rank> {
    shape: D,
    /// Number of operations in the expression that were not computed when it was built. Shared
    /// subexpressions count once per use.
    length: usize,
    /// Estimated time in nanoseconds per element.
    nanoseconds: f64,
    /// Dropped, with its operands, once there is a value.
    operation: Mutex<Option<Expr<A, D>>>,
    value: OnceLock<Storage<A, D>>,
    /// Where it is computed.
    place: Place,
    /// Held by the thread that launches its kernel on a device.
    launching: Mutex<()>,
    /// Whether a thread is computing this tensor by itself, not as part of a larger kernel.
    computing: AtomicBool,
}

/// A pointwise operation. Its operands are broadcast to the shape of the result.
#[derive(Clone)]
pub(crate) enum Expr<A: Item, D: Rank> {
    Repeat(Nd<A, D>),
    Unary(Unary, Nd<A, D>),
    Binary(Binary, Nd<A, D>, Nd<A, D>),
    WithNumber { op: Binary, number: A, left: bool, x: Nd<A, D> },
}

impl<A: Item, D: Rank> LazyTensor<A, D> {
    pub(crate) fn new(shape: D, length: usize, nanoseconds: f64, operation: Expr<A, D>, place: Place) -> Self {
        let (operation, value, computing) = (Mutex::new(Some(operation)), OnceLock::new(), AtomicBool::new(false));
        LazyTensor { shape, length, nanoseconds, operation, value, place, launching: Mutex::new(()), computing }
    }

    /// The device that computes it; none for the host.
    pub(crate) fn device(&self) -> Option<&Arc<dyn Device>> {
        self.place.as_ref()
    }

    pub(crate) fn shape(&self) -> &D {
        &self.shape
    }

    /// Number of operations in the expression that were not computed when it was built.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Estimated time in nanoseconds per element.
    pub(crate) fn nanoseconds(&self) -> f64 {
        self.nanoseconds
    }

    /// Estimated time in nanoseconds to compute it: 0 if it has been computed.
    pub(crate) fn nanoseconds_to_compute(&self) -> f64 {
        if self.computed().is_some() { 0.0 } else { self.nanoseconds * self.shape.size() as f64 }
    }

    /// The elements, if they have been computed.
    pub(crate) fn computed(&self) -> Option<&Storage<A, D>> {
        self.value.get()
    }

    /// The operation, or `None` if the elements have been computed.
    pub(crate) fn operation(&self) -> Option<Expr<A, D>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The elements, computed on first use.
    ///
    /// # Errors
    /// Those of the device. The host has none.
    pub(crate) fn try_compute(&self) -> Result<&Storage<A, D>> {
        if self.place.is_some() && self.value.get().is_none() {
            let _launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
            if self.value.get().is_none() {
                self.keep(A::compute_on_device(self)?);
            }
        }
        Ok(self.compute())
    }

    /// The same, where an error of the device is raised.
    pub(crate) fn compute(&self) -> &Storage<A, D> {
        if let Some(value) = self.value.get() {
            return value;
        }
        if self.place.is_some() {
            return self.try_compute().unwrap_or_else(Error::raise);
        }
        // a second thread spins first: the computation waits for no other thread, and a wake-up
        // takes longer than most kernels
        if self.computing.load(Ordering::Relaxed) {
            wait(|| self.value.get().is_some());
        }
        let value = self.value.get_or_init(|| {
            let _guard = ComputeGuard::new(&self.computing);
            A::compute(self)
        });
        self.drop_operation();
        value
    }

    /// The elements of a computed tensor.
    pub(crate) fn into_computed(self) -> Storage<A, D> {
        self.value.into_inner().expect("it has been computed")
    }

    /// The elements in `buf` as storage of this shape.
    pub(crate) fn elements(&self, buf: AlignedBuf<A>) -> Storage<A, D> {
        buf.into_array(self.shape.clone()).into_shared().into()
    }

    /// Stores the computed elements. If another thread has stored them before, these are dropped.
    pub(crate) fn keep(&self, elements: Storage<A, D>) {
        let _ = self.value.set(elements);
        self.drop_operation();
    }

    /// Takes the operation for computing it. The caller must then call [`keep`](LazyTensor::keep)
    /// or [`put_back`](LazyTensor::put_back).
    pub(crate) fn take_operation(&self) -> Option<Expr<A, D>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put_back(&self, operation: Expr<A, D>) {
        *self.operation.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation);
    }

    fn drop_operation(&self) {
        drop(self.take_operation());
    }
}
