//! A weight or a buffer of a module, with its type erased.

use crate::api::weight::Weight;
use crate::error::{Error, Result};
use crate::graph::data::Data;
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use crate::graph::variable::VariableRef;
use crate::graph::weight::{AnySlot, WeightHandle};
use crate::step::commit;
use crate::step::state::OptimizerState;
use crate::storage::numbers::{DType, DeltaNumbers, Numbers, Stored};
use crate::storage::row::Row;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Weight,
    Buffer,
}

/// A weight or a buffer of a [`Module`](crate::Module), with its path and without its type.
///
/// It is a handle: it reads the current value, and it keeps the weight alive. It can be read and
/// written without knowledge of the type:
///
/// ```
/// use dl_core::{Module, NewValue, Numbers, Weight};
/// let net = [Weight::new(1.0_f64), Weight::new(2.0)];
/// let mut new = Vec::new();
/// for entry in net.weights() {
///     let Numbers::F64(numbers) = entry.numbers() else { continue };
///     new.push(entry.check(&entry.shape(), Numbers::F64(numbers.iter().map(|x| 10.0 * x).collect()))?);
/// }
/// NewValue::set_all(new)?; // all values are checked: set all of them at once
/// assert_eq!((net[0].value(), net[1].value()), (10.0, 20.0));
/// # dl_core::Result::Ok(())
/// ```
///
/// ```
/// use dl_core::{Buffer, DType, Module, Weight};
/// let w = Weight::new(1.0_f64);
/// let net = (w.clone(), Buffer::new(0.5_f32), w);
/// let [first, buffer, tied] = net.entries().try_into().unwrap();
/// assert!(first.is_weight() && buffer.is_buffer() && first.is_same(&tied));
/// assert_eq!((first.dtype(), first.len(), first.is_empty()), (DType::F64, 1, false));
/// assert!(first.torch_path() == first.path() && !first.is_transposed_in_torch());
/// first.freeze();
/// assert!(tied.is_frozen());
/// tied.unfreeze();
/// assert!(!first.is_frozen());
/// ```
#[derive(Clone)]
pub struct Entry {
    path: String,
    /// PyTorch's path.
    torch: String,
    transposed_in_torch: bool,
    kind: EntryKind,
    tied_to: Option<String>,
    /// A node of the variable.
    node: NodeRef,
    stored: StoredBy,
}

/// The operations on an entry.
#[derive(Clone)]
enum StoredBy {
    Type(&'static dyn AnyStored),
    Elsewhere(Arc<ElsewhereEntry>),
}

impl Deref for StoredBy {
    type Target = dyn AnyStored;

    fn deref(&self) -> &Self::Target {
        match self {
            StoredBy::Type(stored) => *stored,
            StoredBy::Elsewhere(stored) => &**stored,
        }
    }
}

impl Entry {
    pub(super) fn new<T: Stored>(paths: [&String; 2], kind: EntryKind, node: Layer<T>) -> Self {
        let [path, torch] = paths.map(String::clone);
        let stored = StoredBy::Type(&StoredType::<T>(PhantomData));
        Entry { path, torch, transposed_in_torch: false, kind, tied_to: None, node: node.into_any(), stored }
    }

    pub(super) fn elsewhere(paths: [&String; 2], entry: &Arc<ElsewhereEntry>) -> Self {
        let [path, torch] = paths.map(|above| match above.is_empty() {
            true => entry.path.clone(),
            false => format!("{above}.{}", entry.path),
        });
        let kind = if entry.is_weight { EntryKind::Weight } else { EntryKind::Buffer };
        let stored = StoredBy::Elsewhere(entry.clone());
        let node = entry.stand_in.to_layer().into_any();
        Entry { path, torch, transposed_in_torch: false, kind, tied_to: None, node, stored }
    }

    pub(super) fn set_torch(&mut self, path: String, transposed: bool) {
        self.torch = path;
        self.transposed_in_torch |= transposed;
    }

    pub(super) fn tie(&mut self, first: &str) {
        self.tied_to = Some(first.to_owned());
    }

    fn variable(&self) -> VariableRef {
        self.node.variable().expect("an entry has a node of a variable")
    }

    /// The number of the rank that has this weight or buffer, if the module was placed on another
    /// rank than this one. Its numbers can be read, which asks that rank, but not set.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// assert_eq!([Weight::new(1.0_f64)].entries()[0].rank(), None);
    /// ```
    pub fn rank(&self) -> Option<usize> {
        match &self.stored {
            StoredBy::Type(_) => None,
            StoredBy::Elsewhere(entry) => Some(entry.rank),
        }
    }

    /// A number that identifies the weight or buffer in the program. [Recordings](crate::record)
    /// use the same number.
    ///
    /// ```
    /// use dl_core::record::Recorder;
    /// use dl_core::{Differentiable, Module, Weight};
    /// let (recorder, net) = (Recorder::new(), [1.0, 2.0].map(Weight::<f64>::new));
    /// net[1].sin().predict().recorded(&recorder).wait()?;
    /// assert_eq!(recorder.take().passes[0].nodes[0].variable, Some(net.entry("1")?.id()));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn id(&self) -> u64 {
        self.variable().id()
    }

    /// The names of the fields that lead to it, joined by dots: `encoder.0.bias`.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// assert_eq!((0, vec![Weight::new(1.0_f64)]).weights()[0].path(), "1.0");
    /// ```
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its path in a `state_dict` of PyTorch, as the modules on the way declare it
    /// ([`Torch`](crate::Torch)).
    pub fn torch_path(&self) -> &str {
        &self.torch
    }

    /// Whether its last two axes are exchanged in a `state_dict` of PyTorch.
    pub fn is_transposed_in_torch(&self) -> bool {
        self.transposed_in_torch
    }

    /// Whether it is a [`Weight`](crate::Weight).
    pub fn is_weight(&self) -> bool {
        self.kind == EntryKind::Weight
    }

    /// Whether it is a [`Buffer`](crate::Buffer).
    pub fn is_buffer(&self) -> bool {
        self.kind == EntryKind::Buffer
    }

    /// The type of its numbers.
    pub fn dtype(&self) -> DType {
        self.stored.dtype()
    }

    /// The lengths of the axes of its current value.
    pub fn shape(&self) -> Vec<usize> {
        self.stored.shape(&self.variable().read())
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether it has no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the numbers of its current value, in row-major order.
    ///
    /// # Panics
    /// If it is on another [rank](Entry::rank), which does not answer.
    pub fn numbers(&self) -> Numbers {
        self.stored.numbers(&self.variable().read())
    }

    /// Whether both are the same weight or the same buffer, even by different paths.
    pub fn is_same(&self, other: &Entry) -> bool {
        self.id() == other.id()
    }

    /// The first path to this weight or buffer, if it is not the path of this entry.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// let w = Weight::new(1.0_f64);
    /// let tied = [w.clone(), w];
    /// assert_eq!(tied.entry("0")?.tied_to(), None);
    /// assert_eq!(tied.entry("1")?.tied_to(), Some("0"));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn tied_to(&self) -> Option<&str> {
        self.tied_to.as_deref()
    }

    /// Whether it is a frozen weight, which no training step changes.
    pub fn is_frozen(&self) -> bool {
        self.is_weight() && self.variable().frozen()
    }

    /// Freezes this weight; does nothing for a buffer.
    pub fn freeze(&self) {
        self.set_frozen(true);
    }

    /// Undoes [`freeze`](Entry::freeze).
    pub fn unfreeze(&self) {
        self.set_frozen(false);
    }

    fn set_frozen(&self, frozen: bool) {
        if self.is_weight() {
            self.variable().set_frozen(frozen);
        }
    }

    /// A handle of the weight, for an [optimizer](crate::Optimizer::state); none for a buffer.
    ///
    /// ```
    /// use dl_core::{Module, Optimizer, Weight, WeightHandle};
    /// use dl_optim::Adam;
    /// let net = [1.0, 2.0].map(Weight::<f64>::new);
    /// let named: Vec<(String, WeightHandle)> =
    ///     net.weights().iter().filter_map(|entry| Some((entry.path().to_owned(), entry.weight()?))).collect();
    /// assert_eq!(Adam::new(0.1).state(&named)?.number("steps"), Some(0.0));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn weight(&self) -> Option<WeightHandle> {
        self.is_weight().then(|| WeightHandle(self.node.clone()))
    }

    /// The numbers in a slot of this weight, found by its path, in the state of an optimizer. They
    /// have the shape and the type of the weight.
    ///
    /// ```
    /// use dl_core::{Module, Numbers, OptimizerState, Weight};
    /// let net = [Weight::new(1.0_f64)];
    /// let (entry, mut state) = (net.entry("0")?, OptimizerState::new("Sgd"));
    /// entry.set_slot(&mut state, "momentum_buffer", &[], Numbers::F64(vec![0.5]))?;
    /// assert_eq!(entry.slot(&state, "momentum_buffer"), Some(Numbers::F64(vec![0.5])));
    /// assert_eq!(entry.slot(&state, "exp_avg"), None);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn slot(&self, state: &OptimizerState, slot: &str) -> Option<Numbers> {
        self.stored.slot_numbers(state.any_slot(&self.path, slot)?)
    }

    /// Sets a slot of this weight, found by its path, in the state of an optimizer.
    ///
    /// ```
    /// use dl_core::{Module, Numbers, OptimizerState, Weight};
    /// let (net, mut state) = ([Weight::new(1.0_f64)], OptimizerState::new("Sgd"));
    /// let error = net.entry("0")?.set_slot(&mut state, "momentum_buffer", &[2], Numbers::F64(vec![0.5, 0.5]));
    /// assert!(error.unwrap_err().is_shape());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the shape or the type of the numbers is not that of the weight. Then nothing is set.
    pub fn set_slot(&self, state: &mut OptimizerState, slot: &str, shape: &[usize], numbers: Numbers) -> Result<()> {
        let value = self.checked(shape, numbers, |shape, numbers| self.stored.slot(shape, numbers))?;
        state.set_any_slot(self.path.clone(), slot.to_owned(), value);
        Ok(())
    }

    /// The first step of a write: checks a new value without setting it. The second step is
    /// [`NewValue::set_all`].
    ///
    /// ```
    /// use dl_core::{Module, Numbers, Weight};
    /// let net = [Weight::new(1.0_f64)];
    /// let error = net.entry("0")?.check(&[], Numbers::F32(vec![2.0])).unwrap_err();
    /// assert!(error.to_string().contains("`0`") && error.to_string().contains("`f32`"));
    /// assert!(net.entry("0")?.check(&[2], Numbers::F64(vec![2.0, 3.0])).unwrap_err().is_shape());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the shape or the type of the numbers is not that of the current value, or the shape
    /// does not match the number of numbers.
    pub fn check(&self, shape: &[usize], numbers: Numbers) -> Result<NewValue> {
        let current = self.variable().read();
        let value = self.checked(shape, numbers, |shape, numbers| self.stored.value(shape, numbers, &current))?;
        Ok(NewValue { path: self.path.clone(), node: self.node.clone(), value })
    }

    /// Sets these weights and buffers, each of this shape, one after the other: beside the old values,
    /// one new value is in memory. `numbers` returns the new numbers of an entry, in row-major order.
    ///
    /// All of them are locked until the last one is set. A training step of another thread that has one
    /// of them waits, and so do a thread that sets one, and a pass [on](crate::Do::on) a
    /// [`Snapshot`](crate::Snapshot), which sees all old values or all new ones. `numbers`, and the
    /// `Drop` of an old value, must therefore not wait for any of these. An old value that a snapshot
    /// or a pass refers to stays in memory.
    ///
    /// ```
    /// use dl_core::{Entry, Module, Numbers, Weight};
    /// let net = [1.0, 2.0].map(Weight::<f64>::new);
    /// let entries: Vec<_> = net.entries().into_iter().map(|entry| (entry, Vec::new())).collect();
    /// Entry::set_each(&entries, |entry| Ok(Numbers::F64(vec![if entry.path() == "0" { 3.0 } else { 4.0 }])))?;
    /// assert_eq!((net[0].value(), net[1].value()), (3.0, 4.0));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When two entries are the same weight, or the current value of one has another shape; then nothing
    /// is set. Those of `numbers`, and of [`check`](Entry::check); then the entries before are set, in
    /// the order in which the weights and buffers were made. To set all or none, use
    /// [`NewValue::set_all`].
    #[track_caller]
    pub fn set_each(entries: &[(Entry, Vec<usize>)], mut numbers: impl FnMut(&Entry) -> Result<Numbers>) -> Result<()> {
        let places = distinct(entries.iter().map(|(entry, _)| (entry.id(), entry.path())))?;
        let leaves: Vec<&NodeRef> = entries.iter().map(|(entry, _)| &entry.node).collect();
        let check_shapes = || entries.iter().try_for_each(|(entry, shape)| entry.check_shape(shape));
        commit::write_each(&leaves, check_shapes, |id| {
            let (entry, shape) = &entries[places[&id]];
            Ok(entry.check(shape, numbers(entry)?)?.value)
        })
    }

    /// The current value on another place, not set yet.
    #[doc(hidden)]
    pub fn moved(&self, place: &dyn Any) -> Result<NewValue> {
        let value = self.stored.moved(&self.variable().read(), place);
        let value = value.map_err(|error| error.context(format_args!("`{}`", self.path)))?;
        Ok(NewValue { path: self.path.clone(), node: self.node.clone(), value })
    }

    pub(super) fn node(&self) -> &NodeRef {
        &self.node
    }

    /// The shape and the numbers of a value of this weight or buffer.
    pub(super) fn numbers_of(&self, value: &Value) -> (Vec<usize>, Numbers) {
        (self.stored.shape(value), self.stored.numbers(value))
    }

    /// The numbers of a delta of this weight.
    pub(super) fn delta_numbers(&self, delta: &Value) -> Result<DeltaNumbers> {
        self.stored
            .delta_numbers(delta)
            .ok_or_else(|| Error::invalid(format!("the delta of `{}` has no numbers", self.path)))
    }

    /// The delta of this weight with these numbers.
    pub(super) fn delta(&self, numbers: DeltaNumbers) -> Result<Value> {
        let delta = self.stored.delta(numbers).and_then(|delta| self.variable().check_delta(&delta).map(|()| delta));
        delta.map_err(|error| error.context(format_args!("the delta of `{}`", self.path)))
    }

    /// Whether the deltas of this weight are added number by number.
    pub(super) fn has_delta_row(&self) -> bool {
        self.stored.has_delta_row()
    }

    /// The numbers of a delta of this weight.
    pub(super) fn delta_row(&self, delta: &mut Value, then: &mut dyn FnMut(Row<'_>)) {
        self.stored.delta_row(delta, then);
    }

    fn check_shape(&self, shape: &[usize]) -> Result<()> {
        let (path, current) = (&self.path, self.shape());
        if shape == current {
            return Ok(());
        }
        Err(Error::shape(format!("`{path}` has shape {current:?}; a value of shape {shape:?} does not fit")))
    }

    /// Calls `make` with these numbers if they have the shape of the current value. Errors name the
    /// path.
    fn checked<V>(
        &self,
        shape: &[usize],
        numbers: Numbers,
        make: impl FnOnce(&[usize], Numbers) -> Result<V>,
    ) -> Result<V> {
        self.check_shape(shape)?;
        let path = &self.path;
        make(shape, numbers).map_err(|error| {
            let message = format!("`{path}`: {error}");
            if error.is_shape() { Error::shape(message) } else { Error::invalid(message) }
        })
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape) = (self.dtype(), self.shape());
        write!(f, "Entry({:?} {:?} of {dtype} {shape:?})", self.kind, self.path)
    }
}

/// A checked value for an [`Entry`], which is not set yet.
///
/// ```
/// use dl_core::{Module, NewValue, Numbers, Weight};
/// let net = [Weight::new(1.0_f64)];
/// let new: NewValue = net.entry("0")?.check(&[], Numbers::F64(vec![2.0]))?;
/// assert_eq!(net[0].value(), 1.0);
/// NewValue::set_all(vec![new])?;
/// assert_eq!(net[0].value(), 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "nothing is written before `NewValue::set_all`"]
pub struct NewValue {
    path: String,
    node: NodeRef,
    value: Value,
}

impl NewValue {
    /// Sets all of these values atomically: a training step or a [`Snapshot`](crate::Snapshot) of
    /// another thread sees all old values or all new ones. A pass that has read an old value
    /// continues with it.
    ///
    /// ```
    /// use dl_core::{Module, NewValue, Numbers, Weight};
    /// let w = Weight::new(1.0_f64);
    /// let tied = [w.clone(), w.clone()];
    /// let both = [2.0, 3.0].iter().zip(tied.entries());
    /// let both = both.map(|(&x, entry)| entry.check(&[], Numbers::F64(vec![x]))).collect::<dl_core::Result<Vec<_>>>()?;
    /// assert!(NewValue::set_all(both).is_err()); // one weight, two values
    /// assert_eq!(w.value(), 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a tied weight is given two values. Then nothing is set.
    #[track_caller]
    pub fn set_all(values: Vec<NewValue>) -> Result<()> {
        let id = |node: &NodeRef| node.variable().expect("the node of an entry").id();
        distinct(values.iter().map(|new| (id(&new.node), &new.path[..])))?;
        commit::write(values.into_iter().map(|new| (new.node, new.value)).collect())
    }
}

impl NewValue {
    pub(super) fn into_value(self) -> (NodeRef, Value) {
        (self.node, self.value)
    }
}

/// The place of each weight or buffer, by its id.
///
/// # Errors
/// When two are the same.
fn distinct<'a>(all: impl Iterator<Item = (u64, &'a str)>) -> Result<HashMap<u64, usize>> {
    let (mut places, mut paths) = (HashMap::new(), Vec::new());
    for (place, (id, path)) in all.enumerate() {
        if let Some(other) = places.insert(id, place) {
            let other: &str = paths[other];
            return Err(Error::invalid(format!(
                "`{other}` and `{path}` are the same weight or buffer, but have two values"
            )));
        }
        paths.push(path);
    }
    Ok(places)
}

impl fmt::Debug for NewValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NewValue").field(&self.path).finish()
    }
}

/// The operations on an entry that depend on its type.
trait AnyStored: Send + Sync {
    fn dtype(&self) -> DType;
    fn shape(&self, value: &Value) -> Vec<usize>;
    fn numbers(&self, value: &Value) -> Numbers;
    /// A value where the current one lies.
    fn value(&self, shape: &[usize], numbers: Numbers, current: &Value) -> Result<Value>;
    fn moved(&self, value: &Value, place: &dyn Any) -> Result<Value>;
    /// The numbers of a state buffer; none if the buffer is of another type.
    fn slot_numbers(&self, slot: &AnySlot) -> Option<Numbers>;
    fn slot(&self, shape: &[usize], numbers: Numbers) -> Result<AnySlot>;
    fn delta_numbers(&self, delta: &Value) -> Option<DeltaNumbers>;
    fn delta(&self, numbers: DeltaNumbers) -> Result<Value>;
    fn has_delta_row(&self) -> bool {
        false
    }
    fn delta_row(&self, _: &mut Value, _: &mut dyn FnMut(Row<'_>)) {}
}

/// A weight or a buffer on another rank.
#[doc(hidden)]
pub struct ElsewhereEntry {
    /// The rank that has it.
    pub rank: usize,
    /// The path from the module that is placed.
    pub path: String,
    /// Whether it is a weight.
    pub is_weight: bool,
    /// The type of the numbers.
    pub dtype: DType,
    /// The lengths of the axes.
    pub shape: Vec<usize>,
    /// Gives the entry an id of its own.
    pub stand_in: Weight<f32>,
    /// Reads the numbers.
    pub read: Box<dyn Fn() -> Result<Numbers> + Send + Sync>,
}

impl ElsewhereEntry {
    fn cannot_be_set(&self) -> Error {
        Error::invalid(format!("it is on rank {}: set it there", self.rank))
    }
}

impl AnyStored for ElsewhereEntry {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self, _: &Value) -> Vec<usize> {
        self.shape.clone()
    }

    fn numbers(&self, _: &Value) -> Numbers {
        (self.read)().unwrap_or_else(|error| panic!("the numbers of `{}` on rank {}: {error}", self.path, self.rank))
    }

    fn value(&self, _: &[usize], _: Numbers, _: &Value) -> Result<Value> {
        Err(self.cannot_be_set())
    }

    fn moved(&self, _: &Value, _: &dyn Any) -> Result<Value> {
        Err(self.cannot_be_set())
    }

    fn slot_numbers(&self, _: &AnySlot) -> Option<Numbers> {
        None
    }

    fn slot(&self, _: &[usize], _: Numbers) -> Result<AnySlot> {
        Err(self.cannot_be_set())
    }

    fn delta_numbers(&self, _: &Value) -> Option<DeltaNumbers> {
        None
    }

    fn delta(&self, _: DeltaNumbers) -> Result<Value> {
        Err(self.cannot_be_set())
    }
}

struct StoredType<T>(PhantomData<fn() -> T>);

impl<T: Stored> AnyStored for StoredType<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn shape(&self, value: &Value) -> Vec<usize> {
        value.get::<T>().shape()
    }

    fn numbers(&self, value: &Value) -> Numbers {
        let value = value.get::<T>().clone().on_host();
        value.unwrap_or_else(|error| panic!("the numbers cannot be read: {error}")).numbers()
    }

    fn value(&self, shape: &[usize], numbers: Numbers, current: &Value) -> Result<Value> {
        T::from_numbers(shape, numbers)?.beside(current.get()).map(Data::into_value)
    }

    fn moved(&self, value: &Value, place: &dyn Any) -> Result<Value> {
        value.get::<T>().moved(place).map(Data::into_value)
    }

    fn slot_numbers(&self, slot: &AnySlot) -> Option<Numbers> {
        slot.downcast_ref::<T>().map(Stored::numbers)
    }

    fn slot(&self, shape: &[usize], numbers: Numbers) -> Result<AnySlot> {
        Ok(Arc::new(T::from_numbers(shape, numbers)?))
    }

    fn delta_numbers(&self, delta: &Value) -> Option<DeltaNumbers> {
        T::delta_numbers(delta.get())
    }

    fn delta(&self, numbers: DeltaNumbers) -> Result<Value> {
        T::delta_from_numbers(numbers).map(Data::into_value)
    }

    fn has_delta_row(&self) -> bool {
        T::HAS_DELTA_ROW
    }

    fn delta_row(&self, delta: &mut Value, then: &mut dyn FnMut(Row<'_>)) {
        delta.change::<T::Delta>(|delta| T::delta_row(delta).into_iter().for_each(then));
    }
}
