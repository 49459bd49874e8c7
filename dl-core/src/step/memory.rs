//! Optimizer state that persists between steps.

use crate::error::{Error, Result};
use crate::exec::optimizer_step::in_optimizer_step;
use crate::graph::data::Trainable;
use crate::graph::weight::{WeightId, WeightState};
use dl_parallel::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, TryLockError};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};

/// The per-weight state of an optimizer, dropped with the weight, and the number of training steps.
///
/// ```
/// use dl_core::{Differentiable, Memory, Optimizer, Weight};
/// use dl_optim::Adam;
/// let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1));
/// let memory: Memory = adam.memory().unwrap().clone();
/// assert!(memory.is_empty());
/// (&w * &w).train(&adam).wait()?;
/// assert_eq!((memory.is_empty(), memory.steps()), (false, 1));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Default)]
pub struct Memory(Arc<SharedState>);

#[derive(Default)]
struct SharedState {
    states: Mutex<StateMap>,
    /// The counts when the state was last unlocked. They can be read while the state is locked,
    /// even by the thread that holds the lock.
    steps: AtomicU64,
    weights: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct StateMap {
    /// The number of training steps taken with this memory.
    pub(crate) steps: u64,
    /// State buffers by weight id.
    pub(crate) by_weight: HashMap<u64, WeightState>,
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

    /// Whether no step has been taken with it.
    pub fn is_empty(&self) -> bool {
        self.steps() == 0 && self.weights() == 0
    }

    /// The number of completed training steps, which is the position of a schedule. Failed steps
    /// and a step in progress do not count.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Weight};
    /// use dl_optim::Adam;
    /// let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1));
    /// (&w * &w).train(&adam).wait()?;
    /// assert_eq!(adam.memory().unwrap().steps(), 1);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Acquire)
    }

    /// Sets the number of completed training steps.
    ///
    /// # Errors
    /// During a step with the same memory.
    #[doc(hidden)]
    pub fn set_steps(&self, steps: u64) -> Result<()> {
        self.lock().map(|mut states| states.steps = steps)
    }

    fn weights(&self) -> usize {
        self.0.weights.load(Ordering::Acquire)
    }

    /// A copy of one state buffer of a weight, if the weight has taken a step with this memory.
    ///
    /// # Errors
    /// During a step with the same memory.
    #[doc(hidden)]
    pub fn slot<T: Trainable>(&self, weight: WeightId, slot: usize) -> Result<Option<T>> {
        let states = self.lock()?;
        let slots = states.by_weight.get(&weight.0).and_then(|state| state.slots.downcast_ref::<Vec<T>>());
        Ok(slots.and_then(|slots| slots.get(slot).cloned()))
    }

    /// Locks the state. A step that is being computed must not wait for the lock, because the
    /// holder may be waiting for that step.
    pub(crate) fn lock(&self) -> Result<MemoryGuard<'_>> {
        let shared = &*self.0;
        if !in_optimizer_step() {
            return Ok(MemoryGuard { states: shared.states.lock().unwrap_or_else(PoisonError::into_inner), shared });
        }
        match shared.states.try_lock() {
            Ok(states) => Ok(MemoryGuard { states, shared }),
            Err(TryLockError::Poisoned(poisoned)) => Ok(MemoryGuard { states: poisoned.into_inner(), shared }),
            Err(TryLockError::WouldBlock) => Err(Error::invalid(
                "during a step, an optimizer tried to take a step with a memory that another step holds",
            )),
        }
    }
}

/// Exclusive access to the state.
pub(crate) struct MemoryGuard<'a> {
    states: MutexGuard<'a, StateMap>,
    shared: &'a SharedState,
}

impl Deref for MemoryGuard<'_> {
    type Target = StateMap;

    fn deref(&self) -> &StateMap {
        &self.states
    }
}

impl DerefMut for MemoryGuard<'_> {
    fn deref_mut(&mut self) -> &mut StateMap {
        &mut self.states
    }
}

impl Drop for MemoryGuard<'_> {
    fn drop(&mut self) {
        self.shared.steps.store(self.states.steps, Ordering::Release);
        self.shared.weights.store(self.states.by_weight.len(), Ordering::Release);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("steps", &self.steps()).field("weights", &self.weights()).finish()
    }
}

/// A few named numbers that an optimizer or a schedule keeps between steps. Clones share them. They
/// are saved with the state of the optimizer.
///
/// ```
/// let notes = dl_core::Notes::new();
/// notes.set("best", 0.25);
/// assert_eq!((notes.get("best"), notes.get("worst")), (Some(0.25), None));
/// ```
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<BTreeMap<String, f64>>>);

impl Notes {
    /// Empty notes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number with this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.lock().get(name).copied()
    }

    /// Sets a number.
    pub fn set(&self, name: &str, number: f64) {
        self.lock().insert(name.to_owned(), number);
    }

    /// All numbers by name.
    ///
    /// ```
    /// let notes = dl_core::Notes::new();
    /// notes.replace([("best".to_owned(), 0.25)].into());
    /// assert_eq!(notes.all()["best"], 0.25);
    /// ```
    pub fn all(&self) -> BTreeMap<String, f64> {
        self.lock().clone()
    }

    /// Replaces all numbers.
    ///
    /// ```
    /// let notes = dl_core::Notes::new();
    /// notes.set("best", 0.5);
    /// notes.replace([("worst".to_owned(), 2.0)].into());
    /// assert_eq!((notes.get("best"), notes.get("worst")), (None, Some(2.0)));
    /// ```
    pub fn replace(&self, numbers: BTreeMap<String, f64>) {
        *self.lock() = numbers;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}
