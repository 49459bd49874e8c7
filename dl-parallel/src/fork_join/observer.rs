//! The observer of a region: for the executor, the pass whose kernel is divided.

use crate::concurrency::Width;
use crate::fork_join::Team;
use std::sync::{Arc, OnceLock};

/// Finds further threads for the regions that a thread divides. `announce` and `retire` must not
/// unwind, and must not wait for a lock: the thread may hold any.
pub trait RegionObserver: Sync {
    /// The threads that work for this observer.
    fn width(&self) -> &Width;

    /// Announces a region to threads that would not take an offer of the injector: those that wait,
    /// or spin for jobs. Wakes at most `wanted` of them. Returns whether it did.
    fn announce(&self, region: &Arc<Team>, wanted: usize) -> bool;

    /// Withdraws a region that was announced.
    fn retire(&self, region: &Arc<Team>);

    /// Calls `help` once, on a thread that helps, which counts as computing for this observer.
    fn enter_helper(&self, help: &mut dyn FnMut());
}

/// Calls its argument once, with the observer of the calling thread if it has one.
type Observed = fn(&mut dyn FnMut(Option<&dyn RegionObserver>));

static OBSERVED: OnceLock<Observed> = OnceLock::new();

/// Sets how the observer of a thread is found: by a call of its argument. The first call counts.
pub fn observe(observed: Observed) {
    OBSERVED.get_or_init(|| observed);
}

pub(super) fn with_observer(divide: impl FnOnce(Option<&dyn RegionObserver>)) {
    let Some(observed) = OBSERVED.get() else { return divide(None) };
    let mut divide = Some(divide);
    observed(&mut |observer| divide.take().expect("it is called once")(observer));
}
