//! Snapshots of all weights, for evaluation during training.

use crate::exec::optimizer_step::in_optimizer_step;
use crate::graph::value::Value;
use crate::graph::variable::Variable;
use dl_parallel::sync::{AtomicUsize, Mutex, Ordering, globals};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, Weak};

/// All weights and buffers as they were when the snapshot was taken.
///
/// A pass that runs [on](crate::Do::on) a snapshot reads these values, regardless of concurrent
/// steps. Without a snapshot, a pass that overlaps with a step may read some weights before and
/// others after it. Taking a snapshot copies nothing: a commit that overwrites a weight saves the
/// old value in each live snapshot. The saved values are dropped with the last clone of the
/// snapshot.
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
pub struct Snapshot(Arc<SavedValues>);

/// The overwritten values by variable id.
#[derive(Default)]
struct SavedValues(Mutex<HashMap<u64, Value>>);

globals! {
    /// The live snapshots. `LIVE_COUNT` is the length of the list, so that a commit without
    /// snapshots does not lock it.
    static LIVE: Mutex<Vec<Weak<SavedValues>>> = Mutex::new(Vec::new());
    static LIVE_COUNT: AtomicUsize = AtomicUsize::new(0);
}

impl Snapshot {
    /// The weights and buffers at this moment. A step counts as taken once its commit has begun.
    pub fn take() -> Snapshot {
        let saved = Arc::<SavedValues>::default();
        let mut taken = lock(&LIVE);
        taken.push(Arc::downgrade(&saved));
        LIVE_COUNT.fetch_add(1, Ordering::SeqCst);
        Snapshot(saved)
    }

    /// A snapshot in which these variables, given by id, have these values.
    pub(crate) fn with(values: HashMap<u64, Value>) -> Snapshot {
        let snapshot = Snapshot::take();
        lock(&snapshot.0.0).extend(values);
        snapshot
    }

    pub(crate) fn read(&self, variable: &Variable) -> Value {
        // A commit that overwrites the variable holds its lock. Within a step this thread may
        // itself hold it; that step has overwritten nothing yet.
        let _no_commit = if in_optimizer_step() { variable.try_lock() } else { Some(variable.lock()) };
        // Must precede the look-up: a commit that overwrites the variable without our lock has
        // saved the old value before.
        let now = variable.read();
        lock(&self.0.0).get(&variable.id()).cloned().unwrap_or(now)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("overwritten", &lock(&self.0.0).len()).finish()
    }
}

impl SavedValues {
    fn save(&self, variable: &Variable) {
        lock(&self.0).entry(variable.id()).or_insert_with(|| variable.read());
    }
}

impl Drop for SavedValues {
    fn drop(&mut self) {
        LIVE_COUNT.fetch_sub(1, Ordering::SeqCst);
        lock(&LIVE).retain(|taken| taken.strong_count() > 0);
    }
}

/// The snapshots taken before a commit. To be collected once per commit, under the locks of its
/// variables.
pub(crate) struct LiveSnapshots(Vec<Arc<SavedValues>>);

impl LiveSnapshots {
    #[inline]
    pub(crate) fn collect() -> LiveSnapshots {
        if LIVE_COUNT.load(Ordering::SeqCst) == 0 {
            return LiveSnapshots(Vec::new());
        }
        LiveSnapshots(lock(&LIVE).iter().filter_map(Weak::upgrade).collect())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Saves the values of these variables, which are about to be overwritten.
    #[inline(always)]
    pub(crate) fn save<'a>(&self, variables: impl Iterator<Item = &'a Variable> + Clone) {
        self.0.iter().for_each(|saved| variables.clone().for_each(|variable| saved.save(variable)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> dl_parallel::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::{Differentiable, Layer, Weight};

    /// A thread caches ended passes for reuse, and a pass refers to its snapshot.
    #[test]
    fn saved_values_are_dropped_with_last_handle_after_passes() {
        let w = Weight::new(1.0_f64);
        let body = w.clone();
        let dynamic = Layer::dynamic(move || {
            let w = body.clone();
            async move { Ok(Layer::constant((&w * 2.0).predict().wait()?)) }
        });
        let snapshot = Snapshot::take();
        let saved = Arc::downgrade(&snapshot.0);
        w.set(2.0);
        assert_eq!((&w * 3.0).predict().on(&snapshot).wait().expect("it succeeds"), 3.0);
        assert_eq!(dynamic.predict().on(&snapshot).wait().expect("it succeeds"), 2.0);
        drop(snapshot);
        assert!(saved.upgrade().is_none());
    }
}
