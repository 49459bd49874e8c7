//! How weights learn from their deltas.
//!
//! An optimizer is a rule over the numbers of one weight. The runtime calls it when forward and *all* deltas have succeeded; it
//! works on fresh copies, which take their place only when the rule has succeeded for every weight. So a rule may fail, or
//! panic, at any weight, and nothing has changed.
//!
//! ```
//! use dl_core::{Differentiable, Optimizer, Sgd, Weight};
//! let w = Weight::new(1.0_f64);
//! let sgd = Sgd::new(0.1).momentum(0.9).refuse_non_finite();
//! (&w * &w).train(&sgd).wait()?;
//! assert_eq!(w.value(), 0.8);
//! # dl_core::Result::Ok(())
//! ```

use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard, TryLockError};
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};

/// An error, unless a setting of an optimizer is one of those that make sense.
pub(crate) fn check(what: &str, number: f64, makes_sense: bool) -> Result<()> {
    if makes_sense && !number.is_nan() {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} of the optimizer is {number}, which makes no sense")))
}

/// A run of numbers of one weight, with their deltas and the optimizer's state.
///
/// All slices have the same length.
pub enum Chunk<'a> {
    /// Single precision.
    F32 {
        /// The numbers to change.
        values: &'a mut [f32],
        /// Their derivatives.
        deltas: &'a [f32],
        /// The state buffers, [`Optimizer::slots`] of them; zero in the beginning.
        slots: &'a mut [&'a mut [f32]],
    },
    /// Double precision.
    F64 {
        /// The numbers to change.
        values: &'a mut [f64],
        /// Their derivatives.
        deltas: &'a [f64],
        /// The state buffers, [`Optimizer::slots`] of them; zero in the beginning.
        slots: &'a mut [&'a mut [f64]],
    },
}

/// The rule by which weights are changed in a training step.
///
/// A handle: it is cheap to clone, and clones share their state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an optimizer",
    label = "expected for instance `&Sgd::new(0.01)`"
)]
pub trait Optimizer: Send + Sync {
    /// How many state buffers of its own size a weight needs.
    fn slots(&self) -> usize {
        0
    }

    /// Where the state buffers are kept; needed when there are [`slots`](Optimizer::slots).
    fn memory(&self) -> Option<&Memory> {
        None
    }

    /// Changes the numbers of one weight, or of a part of it. This is step number `steps` of the weight, counted from 1 beside its state
    /// buffers; where there are none, nobody counts, and it is 1.
    ///
    /// It runs while the weights of the step are locked: it must not [`set`](crate::Weight::set) them. It may take steps of its own on other
    /// weights; those wait for nobody, so if another step holds such a weight, they fail.
    ///
    /// # Errors
    /// Any error refuses the whole training step: no weight and no state changes.
    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()>;

    /// The same optimizer, which refuses a step in which any delta is not finite.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let w = Weight::new(0.0_f64);
    /// let error = w.sqrt().train(&Sgd::new(0.1).refuse_non_finite()).wait().unwrap_err();
    /// assert!(error.is_not_finite());
    /// assert_eq!(w.value(), 0.0);
    /// ```
    fn refuse_non_finite(self) -> RefuseNonFinite<Self>
    where
        Self: Sized,
    {
        RefuseNonFinite(self)
    }
}

/// An optimizer that refuses a step in which any delta is not finite. See [`Optimizer::refuse_non_finite`].
#[derive(Clone, Debug)]
pub struct RefuseNonFinite<O>(O);

impl<O: Optimizer> Optimizer for RefuseNonFinite<O> {
    fn slots(&self) -> usize {
        self.0.slots()
    }

    fn memory(&self) -> Option<&Memory> {
        self.0.memory()
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        let culprit = match &chunk {
            Chunk::F32 { deltas, .. } => deltas.iter().find(|d| !d.is_finite()).map(f32::to_string),
            Chunk::F64 { deltas, .. } => deltas.iter().find(|d| !d.is_finite()).map(f64::to_string),
        };
        match culprit {
            Some(number) => {
                Err(Error::not_finite(format!("the step was refused: the delta of this weight contains {number}")))
            }
            None => self.0.step(chunk, steps),
        }
    }
}

/// The state that an optimizer keeps for each weight, dropped with the weight.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Shelves>>);

/// State buffers by the number of their weight.
pub(crate) type Shelves = HashMap<u64, Shelf>;

pub(crate) struct Shelf {
    /// Alive as long as the weight is.
    pub(crate) owner: Weak<()>,
    /// A vector of values of the weight's type.
    pub(crate) slots: Box<dyn Any + Send>,
    /// How many steps the weight has taken with them.
    pub(crate) steps: u64,
}

impl Memory {
    /// An empty memory.
    ///
    /// ```
    /// let memory = dl_core::Memory::new();
    /// assert!(memory.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it holds no state yet.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Shelves>> {
        match self.0.try_lock() {
            Ok(shelves) => Some(shelves),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("weights", &self.lock().len()).finish()
    }
}
