//! Handles to variables (weights and buffers).

use crate::exec::optimizer_step::in_optimizer_step;
use crate::exec::snapshot::LiveSnapshots;
use crate::graph::data::Data;
use crate::graph::layer::Layer;
use crate::graph::node::DataVTable;
use crate::graph::variable::{Variable, VariableRef};
use crate::graph::weight::AnyWeight;
use crate::step::commit;
use std::panic::Location;

/// A handle to a variable. Clones refer to the same variable.
pub(crate) struct Handle<T> {
    /// One replica of the variable; each thread has its own (see `graph/variable.rs`).
    leaf: Layer<T>,
    /// Whether this is the initial handle. Its drop switches the replicas to atomic counting.
    is_initial: bool,
}

impl<T> Handle<T> {
    pub(crate) fn variable(&self) -> VariableRef {
        self.leaf.any().variable().expect("a handle has a leaf of a variable")
    }

    /// The layer of the variable for use by the current thread.
    #[inline]
    pub(crate) fn to_layer(&self) -> Layer<T> {
        // Mostly the replica of this handle; then the variable itself, a separate allocation, is
        // not read.
        if self.leaf.any().is_leaf_of_this_thread() {
            return self.leaf.clone();
        }
        Layer::from_any(self.variable().leaf())
    }
}

impl<T: Data> Handle<T> {
    /// The initial handle to a new variable: a buffer, if there is no `weight`.
    #[track_caller]
    pub(crate) fn new(value: T, weight: Option<&'static dyn AnyWeight>) -> Self {
        let leaf = Variable::create(value.at_rest().into_value(), weight, DataVTable::of::<T>(), Location::caller());
        Handle { leaf: Layer::from_any(leaf), is_initial: true }
    }

    pub(crate) fn value(&self) -> T {
        self.variable().read().get::<T>().clone()
    }

    /// # Panics
    /// During a step, if that step or another one holds the lock of the variable: waiting for it
    /// could deadlock.
    pub(crate) fn set(&self, value: T) {
        let (variable, mut value) = (self.variable(), value.at_rest().into_value());
        let commit = commit::lock(&variable, in_optimizer_step()).unwrap_or_else(|error| panic!("{error}"));
        let snapshots = LiveSnapshots::collect();
        snapshots.save(std::iter::once(&*variable));
        variable.exchange(&mut value);
        drop(commit);
        // Dropped after the unlock: the destructor of the old value may be user code.
        drop((value, snapshots));
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Handle { leaf: self.to_layer(), is_initial: false }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if self.is_initial {
            self.variable().first_handle_goes();
        }
    }
}
