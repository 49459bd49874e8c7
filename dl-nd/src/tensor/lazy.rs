//! Tensors that are not computed yet: pointwise operations on large tensors are written down, and
//! computed together when somebody looks at the elements.
//!
//! A run of pointwise operations thereby reads its operands and writes its result once, however
//! many operations it has. What lies in between is not in memory: a cheap operation is computed a
//! second time, for the backward for instance, which costs less than to fetch its result. The
//! result of a dear one, an exponential for instance, is kept if somebody else has it.

use super::aligned::AlignedBuf;
use super::{Item, Nd, Rank, Storage};
use dl_core::{Binary, Unary};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Somebody is computing, as long as this is there: a panic, for want of memory, ends it, too.
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

/// So long somebody waits for a formula that another thread computes, before he sleeps.
const SPIN_TIME: Duration = Duration::from_micros(100);
/// How often he looks before he lets another thread have the processor.
const SPINS_BEFORE_YIELD: usize = 200;

/// A tensor of a shape, and the operation whose result it is.
pub(crate) struct LazyTensor<A: Item, D: Rank> {
    shape: D,
    /// The operations below that were not computed when it was written; one that is reached twice
    /// counts twice.
    length: usize,
    /// A rough estimate of the time that they take for an element.
    nanoseconds: f64,
    /// Is forgotten once there is a value, and with it the operands.
    operation: Mutex<Option<Expr<A, D>>>,
    value: OnceLock<Storage<A, D>>,
    /// Whether somebody is computing it by itself.
    computing: AtomicBool,
}

/// A pointwise operation. Operands are broadcast to the shape of the result.
#[derive(Clone)]
pub(crate) enum Expr<A: Item, D: Rank> {
    Repeat(Nd<A, D>),
    Unary(Unary, Nd<A, D>),
    Binary(Binary, Nd<A, D>, Nd<A, D>),
    WithNumber { op: Binary, number: A, left: bool, x: Nd<A, D> },
}

impl<A: Item, D: Rank> LazyTensor<A, D> {
    pub(crate) fn new(shape: D, length: usize, nanoseconds: f64, operation: Expr<A, D>) -> Self {
        let (operation, value, computing) = (Mutex::new(Some(operation)), OnceLock::new(), AtomicBool::new(false));
        LazyTensor { shape, length, nanoseconds, operation, value, computing }
    }

    pub(crate) fn shape(&self) -> &D {
        &self.shape
    }

    /// How many operations it has, counting those below it that were not computed when it was made.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// A rough estimate of the time that they take for an element.
    pub(crate) fn nanoseconds(&self) -> f64 {
        self.nanoseconds
    }

    /// About how long it takes to compute it: nothing, if that has been done.
    pub(crate) fn nanoseconds_to_compute(&self) -> f64 {
        if self.computed().is_some() { 0.0 } else { self.nanoseconds * self.shape.size() as f64 }
    }

    /// The elements, if they have been computed.
    pub(crate) fn computed(&self) -> Option<&Storage<A, D>> {
        self.value.get()
    }

    /// The operation, unless the elements have been computed meanwhile.
    pub(crate) fn operation(&self) -> Option<Expr<A, D>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The elements.
    pub(crate) fn compute(&self) -> &Storage<A, D> {
        if let Some(value) = self.value.get() {
            return value;
        }
        // who comes second waits: nothing in there waits for anybody. To be woken takes longer than
        // most formulas
        if self.computing.load(Ordering::Relaxed) {
            self.spin_until_computed();
        }
        let value = self.value.get_or_init(|| {
            let _begun = ComputeGuard::new(&self.computing);
            A::compute(self)
        });
        self.forget_operation();
        value
    }

    /// Waits for a moment until somebody else has computed it.
    #[cold]
    fn spin_until_computed(&self) {
        let since = Instant::now();
        while since.elapsed() < SPIN_TIME {
            for _ in 0..SPINS_BEFORE_YIELD {
                if self.value.get().is_some() {
                    return;
                }
                spin_loop();
            }
            // there may be more threads than processors
            yield_now();
        }
    }

    /// The elements of a formula that nobody else has, and which has been computed.
    pub(crate) fn into_computed(self) -> Storage<A, D> {
        self.value.into_inner().expect("it has been computed")
    }

    /// These elements as a tensor of its shape.
    pub(crate) fn elements(&self, buf: AlignedBuf<A>) -> Storage<A, D> {
        buf.into_array(self.shape.clone()).into_shared().into()
    }

    /// Somebody has computed it. If somebody else was faster, that is forgotten.
    pub(crate) fn keep(&self, elements: Storage<A, D>) {
        let _ = self.value.set(elements);
        self.forget_operation();
    }

    /// The operation, for whoever computes the elements: he is going to keep them, or to put it
    /// back.
    pub(crate) fn take_operation(&self) -> Option<Expr<A, D>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put_back(&self, operation: Expr<A, D>) {
        *self.operation.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation);
    }

    fn forget_operation(&self) {
        drop(self.take_operation());
    }
}
