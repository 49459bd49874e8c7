//! Who is told: a list of the logs of passes, shared by all clones of a recorder.

use crate::record::{Log, Recording};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

/// Keeps what passes tell that run with [`Do::recorded`](crate::Do::recorded). Clones are the same
/// recorder.
///
/// All that is told is kept until it is taken: some 200 bytes for a layer, 50 for a span, which is
/// a kernel or a poll of a body, and 24 for a decision. A long run is best taken from in between.
///
/// ```
/// use dl_core::record::{Recorder, SpanWork};
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
/// for _ in 0..3 {
///     (&w * &w).train(&Sgd::new(0.1)).recorded(&recorder).wait()?;
/// }
/// let recording = recorder.take();
/// assert_eq!(recording.passes.len(), 3);
/// let commits = |span: &&dl_core::record::Span| span.work == SpanWork::Commit;
/// assert_eq!(recording.passes[0].spans.iter().filter(commits).count(), 1);
/// assert!(recorder.take().passes.is_empty());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    since: Instant,
    threads: Arc<Threads>,
    /// In the order in which the passes began.
    logs: Mutex<Vec<Arc<Log>>>,
}

/// The numbers of threads.
#[derive(Default)]
pub(super) struct Threads(Mutex<HashMap<ThreadId, u32>>);

impl Threads {
    /// That of the current one.
    pub(super) fn number(&self) -> u32 {
        let mut numbers = lock(&self.0);
        let next = numbers.len() as u32;
        *numbers.entry(std::thread::current().id()).or_insert(next)
    }
}

impl Recorder {
    /// A recorder that has been told nothing.
    #[allow(clippy::new_without_default, reason = "time begins here")]
    pub fn new() -> Self {
        Recorder(Arc::new(Shared { since: Instant::now(), threads: Arc::default(), logs: Mutex::default() }))
    }

    /// What finished passes have told so far; the recorder begins anew.
    ///
    /// A pass is over when the run has ended that it belongs to. A tape or
    /// [`SideEffects`](crate::SideEffects) may keep it, and make it go on later: what it does then
    /// belongs to the same record, or, if that was taken, to a new one, which has the layers again
    /// that the pass still knows.
    ///
    /// ```
    /// use dl_core::record::Recorder;
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
    /// let effects = w.sin().backward().recorded(&recorder).wait()?;
    /// assert_eq!(recorder.take().passes.len(), 1);
    /// assert_eq!(recorder.take().passes.len(), 0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn take(&self) -> Recording {
        let over: Vec<Arc<Log>> = lock(&self.0.logs).extract_if(.., |log| log.hands_out()).collect();
        let mut passes: Vec<_> = over.iter().filter_map(|log| log.take()).collect();
        // one that went on may have done something before it was listed again
        passes.sort_by_key(|pass| pass.began);
        Recording { passes }
    }

    /// A pass begins.
    pub(crate) fn begin(&self) -> Arc<Log> {
        let log = Arc::new(Log::new(self.0.since, self.0.threads.clone()));
        lock(&self.0.logs).push(log.clone());
        log
    }

    /// A pass that has rested goes on.
    pub(crate) fn goes_on(&self, log: &Arc<Log>) {
        let mut logs = lock(&self.0.logs);
        if log.goes_on() {
            logs.push(log.clone());
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("passes", &lock(&self.0.logs).len()).finish()
    }
}

/// What is behind this lock is whole at all times.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::testing::Sgd;
    use crate::{Differentiable, Weight};

    /// A thread keeps passes that are over, for others, and a pass has its recorder.
    #[test]
    fn it_goes_with_its_last_handle_though_passes_were_recorded() {
        let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
        (&w * 2.0).predict().recorded(&recorder).wait().expect("it succeeds");
        (&w * 2.0).train(&Sgd::new(0.1)).recorded(&recorder).wait().expect("it succeeds");
        let shared = Arc::downgrade(&recorder.0);
        drop(recorder);
        assert!(shared.upgrade().is_none());
    }
}
