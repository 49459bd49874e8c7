//! The gradients of a module as numbers by path, and gradients made of such numbers.

use crate::api::deferred::Do;
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::gradients::{SideEffects, WeightDeltas};
use crate::autodiff::part_sum::{MeanUpdate, PartSum};
use crate::error::{Error, Result};
use crate::exec::snapshot::Snapshot;
use crate::graph::node_ref::NodeRef;
use crate::module::{Entry, Module};
use crate::storage::numbers::{DeltaNumbers, Numbers};
use crate::storage::wire::Wire;
use std::collections::{HashMap, HashSet};
use std::panic::Location;

impl SideEffects {
    /// The deltas of the weights of this module as numbers, by path, in the order of the module. A
    /// weight without a gradient is absent.
    ///
    /// ```
    /// use dl_core::{Differentiable, Numbers, Weight};
    /// let net = [3.0, 1.0, 2.0].map(Weight::<f64>::new);
    /// let deltas = (&net[0] * &net[2]).backward().wait()?.deltas(&net).wait()?;
    /// let paths: Vec<&str> = deltas.iter().map(|(path, _)| &path[..]).collect();
    /// assert_eq!(paths, ["0", "2"]);
    /// assert_eq!(deltas[1].1.numbers, Numbers::F64(vec![3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of the deltas. If a delta is that of a weight outside of the module, or of a type that
    /// has no numbers.
    pub fn deltas<M: Module + ?Sized>(&self, module: &M) -> Do<Vec<(String, DeltaNumbers)>> {
        let (this, entries) = (self.clone(), module.weights());
        Do::from_fn(move || {
            let (this, entries) = (this.clone(), entries.clone());
            async move { named(&entries, &this.evaluate_by_pass().await?) }
        })
    }

    /// Gradients made of numbers: the inverse of [`deltas`](SideEffects::deltas), with the deltas of
    /// another program, for instance.
    ///
    /// ```
    /// use dl_core::{Differentiable, SideEffects, Weight};
    /// use dl_optim::Sgd;
    /// let (here, there) = ([3.0, 2.0].map(Weight::<f64>::new), [3.0, 2.0].map(Weight::<f64>::new));
    /// let deltas = (&there[0] * &there[1]).backward().wait()?.deltas(&there).wait()?;
    /// SideEffects::of_deltas(&here, deltas)?.step(&Sgd::new(1.0)).wait()?;
    /// assert_eq!(here.map(|weight| weight.value()), [1.0, -1.0]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If there is no weight at a path, if a weight has two deltas, or if a delta does not fit its
    /// weight.
    pub fn of_deltas<M: Module + ?Sized>(
        module: &M,
        deltas: impl IntoIterator<Item = (String, DeltaNumbers)>,
    ) -> Result<SideEffects> {
        let entries = module.weights();
        let deltas: Vec<(String, DeltaNumbers)> = deltas.into_iter().collect();
        Ok(SideEffects::of_computed(unnamed(&entries, deltas)?))
    }
}

/// The deltas by path, in the order of these entries.
fn named(entries: &[Entry], deltas: &WeightDeltas) -> Result<Vec<(String, DeltaNumbers)>> {
    let mut by_id: HashMap<u64, (&NodeRef, &AnyDelta)> =
        deltas.iter().map(|(weight, delta)| (id(weight), (weight, delta))).collect();
    let mut all = Vec::with_capacity(deltas.len());
    for entry in entries {
        if let Some((_, delta)) = by_id.remove(&entry.id()) {
            all.push((entry.path().to_owned(), entry.delta_numbers(delta.expect_ready())?));
        }
    }
    match by_id.into_iter().min_by_key(|(id, _)| *id) {
        Some((_, (weight, _))) => Err(outside("the gradients are", weight.place)),
        None => Ok(all),
    }
}

fn id(weight: &NodeRef) -> u64 {
    weight.variable().map_or(0, |variable| variable.id())
}

fn outside(what: &str, place: &'static Location<'static>) -> Error {
    Error::invalid(format!("{what} those of a weight or buffer outside of this module")).at("deltas of a module", place)
}

fn unnamed(entries: &[Entry], deltas: Vec<(String, DeltaNumbers)>) -> Result<WeightDeltas> {
    let mut all = WeightDeltas::with_capacity(deltas.len());
    for (path, delta) in deltas {
        let entry = entry_at(entries, &path)?;
        let weight = entry.node();
        if all.iter().any(|(other, _)| other.identity() == weight.identity()) {
            return Err(Error::invalid(format!("`{path}` has two deltas")));
        }
        all.push((weight.clone(), AnyDelta::Ready(entry.delta(delta)?)));
    }
    Ok(all)
}

fn entry_at<'e>(entries: &'e [Entry], path: &str) -> Result<&'e Entry> {
    let found = entries.iter().find(|entry| entry.path() == path);
    found.ok_or_else(|| Error::invalid(format!("the module has no weight or buffer at `{path}`")))
}

/// The value of a weight as it travels: its path, its shape, its numbers.
#[doc(hidden)]
pub type NamedValue = (String, Vec<usize>, Numbers);

/// A buffer as it travels: its path, the number of parts that wrote it, and its new value.
type NamedUpdate = (String, usize, Vec<usize>, Numbers);

#[doc(hidden)]
impl PartSum {
    /// Checks that all deltas and updates are those of weights and buffers of the module.
    ///
    /// # Errors
    /// If one is not.
    pub fn check_within<M: Module + ?Sized>(&self, module: &M) -> Result<()> {
        let known: HashSet<u64> = module.entries().iter().map(Entry::id).collect();
        let unknown = |node: &&NodeRef| !known.contains(&id(node));
        if let Some(weight) = self.deltas.iter().map(|(weight, _)| weight).find(unknown) {
            return Err(outside("the gradients are", weight.place));
        }
        match self.updates.iter().find(|update| unknown(&&update.buffer)) {
            Some(update) => Err(outside("the updates are", update.place)),
            None => Ok(()),
        }
    }

    /// The values in a snapshot of the weights that have a delta here and are not frozen.
    pub fn values_in<M: Module + ?Sized>(&self, module: &M, snapshot: &Snapshot) -> Vec<NamedValue> {
        let mut left: HashSet<u64> = self.deltas.iter().map(|(weight, _)| id(weight)).collect();
        let value = |entry: Entry| {
            let variable = entry.node().variable()?;
            let is_new = !variable.frozen() && left.remove(&variable.id());
            let (shape, numbers) = is_new.then(|| entry.numbers_of(&snapshot.read(&variable)))?;
            Some((entry.path().to_owned(), shape, numbers))
        };
        module.weights().into_iter().filter_map(value).collect()
    }

    /// Adds new values of weights without deltas, which the step then writes.
    ///
    /// # Errors
    /// If there is no weight at a path, or a value does not fit it.
    #[track_caller]
    pub fn push_values<M: Module + ?Sized>(&mut self, module: &M, values: Vec<NamedValue>) -> Result<()> {
        let (weights, place) = (module.weights(), Location::caller());
        for (path, shape, numbers) in values {
            let (buffer, value) = entry_at(&weights, &path)?.check(&shape, numbers)?.into_value();
            self.updates.push(MeanUpdate { buffer, value, parts: 1, place });
        }
        Ok(())
    }

    /// The deltas and buffer updates as bytes, by path. Participants stay where they are.
    ///
    /// # Errors
    /// If one is not that of a weight or buffer of the module.
    pub fn to_bytes<M: Module + ?Sized>(&self, module: &M) -> Result<Vec<u8>> {
        let (weights, buffers) = (module.weights(), module.buffers());
        let mut updates: Vec<NamedUpdate> = Vec::new();
        for MeanUpdate { buffer, value, parts, place } in &self.updates {
            let entry = buffers.iter().find(|entry| entry.id() == id(buffer));
            let entry = entry.ok_or_else(|| outside("the updates are", place))?;
            let (shape, numbers) = entry.numbers_of(value);
            updates.push((entry.path().to_owned(), *parts, shape, numbers));
        }
        Ok((named(&weights, &self.deltas)?, updates).to_bytes())
    }

    /// The sum with these bytes.
    ///
    /// # Errors
    /// If the bytes are not those of a sum, or do not fit the module.
    #[track_caller]
    pub fn from_bytes<M: Module + ?Sized>(module: &M, bytes: &[u8]) -> Result<PartSum> {
        let (deltas, updates) = <(Vec<(String, DeltaNumbers)>, Vec<NamedUpdate>)>::from_bytes(bytes)?;
        let (weights, buffers, place) = (module.weights(), module.buffers(), Location::caller());
        let update = |(path, parts, shape, numbers): NamedUpdate| {
            // The counts of parts are added up.
            if parts == 0 || parts > u32::MAX as usize {
                return Err(Error::invalid(format!("`{path}` was written by {parts} parts")));
            }
            let (buffer, value) = entry_at(&buffers, &path)?.check(&shape, numbers)?.into_value();
            Ok(MeanUpdate { buffer, value, parts, place })
        };
        let updates = updates.into_iter().map(update).collect::<Result<_>>()?;
        Ok(PartSum { deltas: unnamed(&weights, deltas)?, updates, participants: Vec::new() })
    }
}
