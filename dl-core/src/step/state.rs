//! Saving and restoring the state of an optimizer.

use crate::error::{Error, Result};
use crate::exec::optimizer_step::in_optimizer_step;
use crate::graph::data::Trainable;
use crate::graph::weight::{AnySlot, Slot, WeightHandle, WeightState};
use crate::step::memory::{Memory, Notes};
use crate::step::optimizer::Optimizer;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// The complete state of an optimizer, for checkpoints.
///
/// It has a [kind](OptimizerState::kind), finite [numbers](OptimizerState::numbers) by key, and
/// [slots](OptimizerState::slots) by weight name and slot name, which have the type of their
/// weight. File formats read and rebuild it with the public methods; [`Optimizer::load_state`]
/// validates all of it before it changes anything.
///
/// | key | number |
/// |---|---|
/// | `steps` | training steps, the position of schedules |
/// | `steps.` and the name of a weight | steps of this weight |
/// | `learning_rate.…` | state of a schedule |
/// | `0.learning_rate.…`, … | state of a schedule of a group |
///
/// ```
/// use dl_core::{Differentiable, Optimizer, OptimizerState, Weight};
/// use dl_optim::Sgd;
/// let w = Weight::new(1.0_f64);
/// let sgd = Sgd::new(0.1).momentum(0.9);
/// w.train(&sgd).wait()?;
/// let state = sgd.state(&[("w", (&w).into())])?;
///
/// // to a file and back: numbers by key, slots by the type of the weight
/// let mut copy = OptimizerState::new(state.kind());
/// for (key, number) in state.numbers() {
///     copy.set_number(key, number);
/// }
/// for (weight, slot) in state.slots() {
///     copy.set_slot(weight, slot, *state.slot::<f64>(weight, slot).unwrap());
/// }
/// Sgd::new(0.1).momentum(0.9).load_state(&copy, &[("w", (&w).into())])?;
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Default)]
pub struct OptimizerState {
    kind: String,
    numbers: BTreeMap<String, f64>,
    /// By weight name and slot name.
    slots: BTreeMap<(String, String), AnySlot>,
}

impl OptimizerState {
    /// An empty state of an optimizer of this [kind](Optimizer::kind).
    ///
    /// ```
    /// assert_eq!(dl_core::OptimizerState::new("Adam").kind(), "Adam");
    /// ```
    pub fn new(kind: impl Into<String>) -> Self {
        OptimizerState { kind: kind.into(), ..Self::default() }
    }

    /// The name of the optimizer type.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The number with this key.
    ///
    /// ```
    /// let mut state = dl_core::OptimizerState::new("Sgd");
    /// state.set_number("steps", 10.0);
    /// assert_eq!(state.number("steps"), Some(10.0));
    /// ```
    pub fn number(&self, key: &str) -> Option<f64> {
        self.numbers.get(key).copied()
    }

    /// All numbers, in the order of their keys.
    ///
    /// ```
    /// assert_eq!(dl_core::OptimizerState::new("Sgd").numbers().count(), 0);
    /// ```
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        self.numbers.iter().map(|(key, &number)| (key.as_str(), number))
    }

    /// Sets a number.
    ///
    /// ```
    /// dl_core::OptimizerState::new("Sgd").set_number("steps", 10.0);
    /// ```
    pub fn set_number(&mut self, key: impl Into<String>, number: f64) {
        self.numbers.insert(key.into(), number);
    }

    /// The names of weights and their slots, sorted.
    ///
    /// ```
    /// let mut state = dl_core::OptimizerState::new("Sgd");
    /// state.set_slot("w", "momentum_buffer", 0.5_f32);
    /// assert_eq!(state.slots().next(), Some(("w", "momentum_buffer")));
    /// ```
    pub fn slots(&self) -> impl Iterator<Item = (&str, &str)> {
        self.slots.keys().map(|(weight, slot)| (weight.as_str(), slot.as_str()))
    }

    /// A slot of a weight, if it exists and has this type.
    ///
    /// ```
    /// let mut state = dl_core::OptimizerState::new("Sgd");
    /// state.set_slot("w", "momentum_buffer", 0.5_f32);
    /// assert_eq!(state.slot::<f32>("w", "momentum_buffer"), Some(&0.5));
    /// assert_eq!(state.slot::<f64>("w", "momentum_buffer"), None);
    /// ```
    pub fn slot<T: Trainable>(&self, weight: &str, slot: &str) -> Option<&T> {
        self.any_slot(weight, slot)?.downcast_ref()
    }

    /// Sets a slot of a weight.
    ///
    /// ```
    /// dl_core::OptimizerState::new("Sgd").set_slot("w", "momentum_buffer", 0.5_f32);
    /// ```
    pub fn set_slot<T: Trainable>(&mut self, weight: impl Into<String>, slot: impl Into<String>, value: T) {
        self.set_any_slot(weight.into(), slot.into(), Arc::new(value));
    }

    pub(crate) fn any_slot(&self, weight: &str, slot: &str) -> Option<&AnySlot> {
        self.slots.get(&(weight.to_owned(), slot.to_owned()))
    }

    pub(crate) fn set_any_slot(&mut self, weight: String, slot: String, value: AnySlot) {
        self.slots.insert((weight, slot), value);
    }
}

impl fmt::Debug for OptimizerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots: Vec<(&str, &str)> = self.slots().collect();
        f.debug_struct("OptimizerState")
            .field("kind", &self.kind)
            .field("numbers", &self.numbers)
            .field("slots", &slots)
            .finish()
    }
}

type NamedWeights<'a> = Vec<(&'a str, &'a WeightHandle)>;

/// Checks that names and weights are distinct.
pub(super) fn distinct<N: AsRef<str>>(named: &[(N, WeightHandle)]) -> Result<NamedWeights<'_>> {
    let (mut names, mut weights) = (HashSet::new(), HashSet::new());
    let named: NamedWeights<'_> = named.iter().map(|(name, weight)| (name.as_ref(), weight)).collect();
    for (name, weight) in &named {
        if !names.insert(*name) {
            return Err(Error::invalid(format!("two weights are called {name:?}")));
        }
        if !weights.insert(weight.id()) {
            return Err(Error::invalid(format!("the weight {name:?} also has another name")));
        }
    }
    Ok(named)
}

pub(super) fn save(optimizer: &dyn Optimizer, named: &NamedWeights<'_>) -> Result<OptimizerState> {
    let mut state = OptimizerState::new(optimizer.kind());
    if let Some(states) = optimizer.memory().map(Memory::lock).transpose()? {
        state.set_number(STEPS, states.steps as f64);
        let alive = states.by_weight.iter().filter(|(_, weight_state)| weight_state.owner.strong_count() > 0);
        let mut unnamed: HashSet<u64> = alive.map(|(&weight, _)| weight).collect();
        for (name, weight) in named {
            let Some(weight_state) = states.by_weight.get(&weight.id().0) else { continue };
            unnamed.remove(&weight.id().0);
            state.set_number(steps_key(name), weight_state.steps as f64);
            let values = weight_state.weight.slots(weight_state)?;
            for (slot, value) in slot_names(optimizer, weight).into_iter().zip(values) {
                state.slots.insert(((*name).to_owned(), slot), value);
            }
        }
        if !unnamed.is_empty() {
            let count = unnamed.len();
            return Err(Error::invalid(format!(
                "the optimizer has state for {count} weights that are not among those with a name"
            )));
        }
    }
    for (key, numbers) in optimizer.notes() {
        for (name, number) in numbers.all() {
            state.set_number(format!("{key}.{name}"), number);
        }
    }
    Ok(state)
}

/// Validates a state against an optimizer. Changes nothing.
pub(super) fn validate(
    optimizer: &dyn Optimizer,
    state: &OptimizerState,
    named: &NamedWeights<'_>,
) -> Result<NewState> {
    if in_optimizer_step() {
        return Err(Error::invalid("the state of an optimizer cannot be replaced during a step"));
    }
    let kind = optimizer.kind();
    if state.kind != kind {
        return Err(Error::invalid(format!("this is the state of {}, and the optimizer is {kind}", state.kind)));
    }
    if let Some((key, number)) = state.numbers().find(|(_, number)| !number.is_finite()) {
        return Err(Error::not_finite(format!("the number {key:?} of the state is {number}")));
    }
    let mut numbers = state.numbers.clone();
    let mut slots = state.slots.clone();

    let steps = optimizer.memory().map(|_| take_count(&mut numbers, STEPS)).transpose()?;
    let mut states: Vec<(u64, Option<WeightState>)> = Vec::new();
    for (name, weight) in named {
        let weight_state = take_weight_state(optimizer, (name, weight), &mut numbers, &mut slots)?;
        states.push((weight.id().0, weight_state));
    }
    if let Some((weight, slot)) = slots.keys().next() {
        return Err(Error::invalid(format!(
            "the state has a slot {slot:?} of a weight {weight:?}: there is no such weight, or the optimizer has no such slot"
        )));
    }
    let mut notes: Vec<(Notes, BTreeMap<String, f64>)> = Vec::new();
    for (key, cell) in optimizer.notes() {
        let prefix = format!("{key}.");
        let own = numbers.extract_if(.., |key, _| key.starts_with(&prefix));
        let own = own.map(|(key, number)| (key[prefix.len()..].to_owned(), number)).collect();
        notes.push((cell, own));
    }
    if let Some(key) = numbers.keys().next() {
        return Err(Error::invalid(format!("the state has a number {key:?}, but the optimizer has none of that name")));
    }
    Ok(NewState { memory: optimizer.memory().cloned(), steps: steps.unwrap_or(0), states, notes })
}

/// A validated state that has not been applied yet: see [`Optimizer::check_state`].
///
/// ```
/// use dl_core::{NewState, Optimizer, Weight};
/// use dl_optim::Adam;
/// let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1));
/// let saved = adam.state(&[("w", (&w).into())])?;
/// let new: NewState = adam.check_state(&saved, &[("w", (&w).into())])?; // may fail
/// new.set()?;
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "the state is not applied before `set`"]
pub struct NewState {
    memory: Option<Memory>,
    steps: u64,
    states: Vec<(u64, Option<WeightState>)>,
    notes: Vec<(Notes, BTreeMap<String, f64>)>,
}

impl NewState {
    /// Applies the state: replaces the state of the named weights.
    ///
    /// # Errors
    /// Only during a step.
    pub fn set(self) -> Result<()> {
        // Dropped after the unlock: the destructors of old state may be user code.
        let mut old = Vec::new();
        if let Some(memory) = &self.memory {
            let mut locked = memory.lock()?;
            locked.steps = self.steps;
            for (weight, weight_state) in self.states {
                old.push(match weight_state {
                    Some(weight_state) => locked.by_weight.insert(weight, weight_state),
                    None => locked.by_weight.remove(&weight),
                });
            }
        }
        for (cell, numbers) in self.notes {
            cell.replace(numbers);
        }
        Ok(())
    }
}

impl fmt::Debug for NewState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewState").field("steps", &self.steps).field("weights", &self.states.len()).finish()
    }
}

const STEPS: &str = "steps";

fn steps_key(weight: &str) -> String {
    format!("{STEPS}.{weight}")
}

/// The slot names of a weight. Repeated names get a numeric suffix.
fn slot_names(optimizer: &dyn Optimizer, weight: &WeightHandle) -> Vec<String> {
    let own = optimizer.for_weight(weight.id());
    let slots: &[Slot] = own.as_ref().map_or(optimizer.slots(), |own| own.slots());
    let before = |index: usize| slots[..index].iter().filter(|slot| slot.name() == slots[index].name()).count();
    let name = |index: usize| match before(index) {
        0 => slots[index].name().to_owned(),
        count => format!("{}_{}", slots[index].name(), count + 1),
    };
    (0..slots.len()).map(name).collect()
}

/// Removes a count from these numbers.
fn take_count(numbers: &mut BTreeMap<String, f64>, key: &str) -> Result<u64> {
    match numbers.remove(key) {
        Some(number) if number >= 0.0 && number.fract() == 0.0 && number < 2_f64.powi(53) => Ok(number as u64),
        Some(number) => {
            Err(Error::invalid(format!("the number {key:?} of the state is {number}, which is not a count")))
        }
        None => Err(Error::invalid(format!("the state has no number {key:?}"))),
    }
}

/// The state of a weight. Removes its entries from these numbers and slots.
fn take_weight_state(
    optimizer: &dyn Optimizer,
    (name, weight): (&str, &WeightHandle),
    numbers: &mut BTreeMap<String, f64>,
    slots: &mut BTreeMap<(String, String), AnySlot>,
) -> Result<Option<WeightState>> {
    let own = |slot: String| slots.remove(&(name.to_owned(), slot.clone())).ok_or(slot);
    let names = slot_names(optimizer, weight);
    let expected = names.len();
    let (found, missing): (Vec<_>, Vec<_>) = names.into_iter().map(own).partition(|slot| slot.is_ok());
    if found.is_empty() && !numbers.contains_key(&steps_key(name)) {
        return Ok(None);
    }
    if found.len() < expected {
        let missing: Vec<String> = missing.into_iter().filter_map(|slot| slot.err()).collect();
        let missing = missing.join(", ");
        return Err(Error::invalid(format!("the state has no slot {missing} of the weight {name:?}")));
    }
    let steps = take_count(numbers, &steps_key(name))?;
    let found: Vec<AnySlot> = found.into_iter().flatten().collect();
    weight.new_state(&found, steps).map(Some)
}
