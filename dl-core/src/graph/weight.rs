//! Weights with the type of their value erased, and the state that optimizers keep for them.

use crate::error::Result;
use crate::graph::chunk::Chunk;
use crate::graph::lazy_chunk::{LazyChunk, PlacedChunk};
use crate::graph::node_ref::NodeRef;
use crate::graph::participant::Participant;
use crate::graph::value::Value;
use crate::graph::variable::{Variable, VariableRef};
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};

/// The id of a weight, unique within the process: see [`Weight::id`](crate::Weight::id).
///
/// ```
/// use dl_core::{Weight, WeightId};
/// use std::collections::HashMap;
/// let (a, b) = (Weight::new(1.0_f64), Weight::new(2.0_f64));
/// let names: HashMap<WeightId, &str> = [(a.id(), "a"), (b.id(), "b")].into();
/// assert_eq!(names[&a.clone().id()], "a");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeightId(pub(crate) u64);

/// A weight of any value type, for lists of weights of different types.
///
/// ```
/// use dl_core::{Weight, WeightHandle};
/// let (a, b) = (Weight::new(1.0_f32), Weight::new(1.0_f64));
/// let both: [WeightHandle; 2] = [(&a).into(), (&b).into()];
/// assert_eq!(both[0].id(), a.id());
/// ```
#[derive(Clone)]
pub struct WeightHandle(pub(crate) NodeRef);

impl From<&WeightHandle> for WeightHandle {
    fn from(weight: &WeightHandle) -> Self {
        weight.clone()
    }
}

impl WeightHandle {
    fn variable(&self) -> VariableRef {
        self.0.variable().expect("made of a weight")
    }

    /// The id of the weight.
    pub fn id(&self) -> WeightId {
        WeightId(self.variable().id())
    }

    /// The source location where the weight was made.
    #[doc(hidden)]
    pub fn place(&self) -> &'static Location<'static> {
        self.variable().place()
    }

    /// Optimizer state for this weight, made of these slots after this number of steps.
    pub(crate) fn new_state(&self, slots: &[AnySlot], steps: u64) -> Result<WeightState> {
        let variable = self.variable();
        let state = variable.weight().new_state(&variable, slots, steps);
        state.map_err(|error| error.at("state of a weight", variable.place()))
    }
}

impl fmt::Debug for WeightHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeightHandle").field(&self.id()).finish()
    }
}

/// A state buffer that an optimizer keeps for each weight: its name and its initial content.
///
/// ```
/// use dl_core::Slot;
/// const SLOTS: &[Slot] = &[Slot::zeros("exp_avg")];
/// assert_eq!(SLOTS[0].name(), "exp_avg");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    name: &'static str,
    pub(crate) initial: InitialValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialValue {
    Zeros,
    Weight,
}

impl Slot {
    /// A slot that is initialized with zeros.
    pub const fn zeros(name: &'static str) -> Self {
        Slot { name, initial: InitialValue::Zeros }
    }

    /// A slot that is initialized with the value of the weight before its first step.
    ///
    /// ```
    /// assert_eq!(dl_core::Slot::copy_of_weight("ema").name(), "ema");
    /// ```
    pub const fn copy_of_weight(name: &'static str) -> Self {
        Slot { name, initial: InitialValue::Weight }
    }

    /// Whether it is initialized with the value of the weight, as an average of it is.
    #[doc(hidden)]
    pub fn is_copy_of_weight(&self) -> bool {
        self.initial == InitialValue::Weight
    }

    /// The name in a saved state.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The state that an optimizer keeps for one weight.
pub(crate) struct WeightState {
    /// Alive as long as the weight is.
    pub(crate) owner: Weak<()>,
    /// The operations for the value type of the weight.
    pub(crate) weight: &'static dyn AnyWeight,
    /// A `Vec` of values of the weight's type.
    pub(crate) slots: Box<dyn Any + Send>,
    /// The number of steps of this weight.
    pub(crate) steps: u64,
}

/// The update rule of an optimizer. Steps of a weight are counted from 1.
pub(crate) trait UpdateRule {
    fn slots(&self) -> &[Slot];
    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()>;
    fn step_lazy(&self, chunk: &mut LazyChunk, steps: u64) -> Result<()>;
}

/// A type-erased state buffer.
pub(crate) type AnySlot = Arc<dyn Any + Send + Sync>;

/// The operations on a weight that depend on its value type.
pub(crate) trait AnyWeight: Send + Sync {
    /// Whether plain gradient descent can be applied with this delta.
    fn supports_sgd(&self, variable: &Variable, delta: &Value) -> bool;

    /// Whether the update is applied in place. Such an update must not fail midway.
    fn is_updated_in_place(&self) -> bool;

    /// Applies the update in place. The caller must hold the lock of the variable.
    fn sgd_in_place(&self, variable: &Variable, rate: f64, delta: &Value);

    /// The value after the update.
    fn sgd_copy(&self, variable: &Variable, rate: f64, delta: &Value) -> Value;

    /// The new value and the new state, as fresh copies, that an update rule computes. Changes
    /// nothing. A weight that stands for others elsewhere adds a participant instead, and keeps its
    /// value.
    fn prepare(
        &self,
        variable: &Variable,
        delta: &Value,
        rule: &dyn UpdateRule,
        state: Option<&WeightState>,
        participants: &mut Vec<Arc<dyn Participant>>,
    ) -> Result<(Value, Option<WeightState>)>;

    /// Passes the elements of the value and of its delta to `visit`; if `only_lazy`, only those
    /// that are not on the host.
    fn visit_chunks(
        &self,
        variable: &Variable,
        delta: &Value,
        only_lazy: bool,
        visit: &mut dyn FnMut(PlacedChunk<'_>) -> Result<()>,
    ) -> Result<()>;

    /// One of the state buffers.
    fn slot(&self, state: &WeightState, place: usize) -> Option<Value>;

    /// Copies of the state buffers, on the host.
    fn slots(&self, state: &WeightState) -> Result<Vec<AnySlot>>;

    /// Optimizer state made of these slots, which must fit the weight.
    fn new_state(&self, variable: &Variable, slots: &[AnySlot], steps: u64) -> Result<WeightState>;
}
