//! The weights as they are at one moment, for evaluating while training goes on.

use crate::api::weight::WeightId;
use crate::error::Result;
use crate::graph::value::Value;
use crate::graph::variable::Variable;
use crate::parallel::sync::{AtomicUsize, Mutex, Ordering, globals};
use crate::step::commit::is_stepping;
use crate::step::memory::{Memory, Shelf};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, Weak};

/// All weights and buffers as they were when it was taken.
///
/// A pass that runs [on](crate::Do::on) it sees them so, whatever steps are taken meanwhile; a pass
/// that overlaps a step may else see some weights before and others after it. Taking one copies
/// nothing: a step that changes a weight leaves its old value with the snapshots that were taken
/// before. They go with the last clone of the snapshot.
///
/// ```
/// use dl_core::{Differentiable, Snapshot, Weight};
/// use dl_optim::Sgd;
/// let w = Weight::new(1.0_f64);
/// let y = &w * 10.0;
/// let before = Snapshot::take();
/// y.train(&Sgd::new(0.05)).wait()?;
/// assert_eq!(y.predict().wait()?, 5.0);
/// assert_eq!(y.predict().on(&before).wait()?, 10.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Snapshot(Arc<Old>);

/// The values that were overwritten since, by the number of their variable.
#[derive(Default)]
struct Old(Mutex<HashMap<u64, Value>>);

globals! {
    /// The snapshots that are alive. Nobody looks at the list unless there is one.
    static TAKEN: Mutex<Vec<Weak<Old>>> = Mutex::new(Vec::new());
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
}

impl Snapshot {
    /// The weights and buffers of this moment. A step whose commit has begun counts as done.
    pub fn take() -> Snapshot {
        let old = Arc::<Old>::default();
        let mut taken = lock(&TAKEN);
        taken.push(Arc::downgrade(&old));
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Snapshot(old)
    }

    /// A snapshot of this moment in which each weight with state in `memory` has the value of one
    /// of its state buffers, the one whose index `slot` returns.
    ///
    /// # Errors
    /// In the middle of a step with the same memory.
    #[doc(hidden)]
    pub fn of_slots(memory: &Memory, slot: impl Fn(WeightId) -> usize) -> Result<Snapshot> {
        // A step with this memory waits until it is closed, so no weight is half a step ahead.
        let memory = memory.open()?;
        let value = |(&weight, shelf): (&u64, &Shelf)| {
            let alive = shelf.owner.strong_count() > 0;
            let value = shelf.weight.slot(shelf, slot(WeightId(weight))).filter(|_| alive)?;
            Some((weight, value))
        };
        let values: HashMap<u64, Value> = memory.by_weight.iter().filter_map(value).collect();
        let snapshot = Snapshot::take();
        lock(&snapshot.0.0).extend(values);
        Ok(snapshot)
    }

    pub(crate) fn read(&self, variable: &Variable) -> Value {
        // whoever overwrites it holds this lock; it may be the very step in which this thread
        // evaluates something, and which has not overwritten anything yet
        let _no_commit = if is_stepping() { variable.try_lock() } else { Some(variable.lock()) };
        // first: whoever overwrites it without our lock has kept the old one before
        let now = variable.read();
        lock(&self.0.0).get(&variable.id()).cloned().unwrap_or(now)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("overwritten", &lock(&self.0.0).len()).finish()
    }
}

impl Old {
    fn keep(&self, variable: &Variable) {
        lock(&self.0).entry(variable.id()).or_insert_with(|| variable.read());
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
        lock(&TAKEN).retain(|taken| taken.strong_count() > 0);
    }
}

/// The snapshots that were taken before a commit. To be asked for once in a commit, under the locks
/// of its variables.
pub(crate) struct Earlier(Vec<Arc<Old>>);

impl Earlier {
    #[inline]
    pub(crate) fn all() -> Earlier {
        if ALIVE.load(Ordering::SeqCst) == 0 {
            return Earlier(Vec::new());
        }
        Earlier(lock(&TAKEN).iter().filter_map(Weak::upgrade).collect())
    }

    /// This variable is about to be overwritten.
    #[inline(always)]
    pub(crate) fn keep(&self, variable: &Variable) {
        self.0.iter().for_each(|old| old.keep(variable));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> crate::parallel::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::{Differentiable, Layer, Weight};

    /// A thread keeps passes that are over, for others, and a pass has a snapshot.
    #[test]
    fn it_goes_with_its_last_handle_though_passes_ran_on_it() {
        let w = Weight::new(1.0_f64);
        let body = w.clone();
        let dynamic = Layer::dynamic(move || {
            let w = body.clone();
            async move { Ok(Layer::constant((&w * 2.0).predict().wait()?)) }
        });
        let snapshot = Snapshot::take();
        let old = Arc::downgrade(&snapshot.0);
        w.set(2.0);
        assert_eq!((&w * 3.0).predict().on(&snapshot).wait().expect("it succeeds"), 3.0);
        assert_eq!(dynamic.predict().on(&snapshot).wait().expect("it succeeds"), 2.0);
        drop(snapshot);
        assert!(old.upgrade().is_none());
    }
}
