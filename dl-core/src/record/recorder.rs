//! The recorder: a list of the logs of passes, shared by all its clones.

use crate::record::{Log, Recording};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

/// Collects the records of passes that run with [`Do::recorded`](crate::Do::recorded). Clones share
/// the records.
///
/// Records are kept until they are taken. They need about 200 bytes per node, 50 per span (a kernel
/// or a poll of a body) and 24 per decision. During a long run, take them from time to time.
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
pub struct Recorder(Arc<RecorderState>);

struct RecorderState {
    since: Instant,
    threads: Arc<Threads>,
    /// Logs that were not taken, in the order in which the passes began.
    logs: Mutex<Vec<Arc<Log>>>,
}

/// The numbering of threads.
#[derive(Default)]
pub(super) struct Threads(Mutex<HashMap<ThreadId, u32>>);

impl Threads {
    /// The number of the current thread.
    pub(super) fn number(&self) -> u32 {
        let mut numbers = lock(&self.0);
        let next = numbers.len() as u32;
        *numbers.entry(std::thread::current().id()).or_insert(next)
    }
}

impl Recorder {
    /// A recorder without records.
    #[allow(clippy::new_without_default, reason = "time begins here")]
    pub fn new() -> Self {
        Recorder(Arc::new(RecorderState { since: Instant::now(), threads: Arc::default(), logs: Mutex::default() }))
    }

    /// Takes the records of all finished passes.
    ///
    /// A pass is finished when its run has ended. A tape or [`SideEffects`](crate::SideEffects) may
    /// keep it and resume it later. It then continues the same record or, if that was taken, begins
    /// a new one, which again contains the nodes that the pass still holds.
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
        let finished: Vec<Arc<Log>> = lock(&self.0.logs).extract_if(.., |log| log.unlist_if_idle()).collect();
        let mut passes: Vec<_> = finished.iter().filter_map(|log| log.take()).collect();
        // a resumed pass may have spans from before its log was added to the list again
        passes.sort_by_key(|pass| pass.began);
        Recording { passes }
    }

    /// Creates the log of a new pass.
    pub(crate) fn begin(&self) -> Arc<Log> {
        let log = Arc::new(Log::new(self.0.since, self.0.threads.clone()));
        lock(&self.0.logs).push(log.clone());
        log
    }

    /// A pass without drivers is resumed.
    pub(crate) fn resume(&self, log: &Arc<Log>) {
        let mut logs = lock(&self.0.logs);
        if log.resume() {
            logs.push(log.clone());
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("passes", &lock(&self.0.logs).len()).finish()
    }
}

/// Ignores poisoning: no code that can panic runs while the data is inconsistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::testing::Sgd;
    use crate::{Differentiable, Weight};

    /// Threads keep finished passes for reuse, and a pass refers to its recorder.
    #[test]
    fn recorder_is_dropped_with_last_handle_after_recording() {
        let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
        (&w * 2.0).predict().recorded(&recorder).wait().expect("it succeeds");
        (&w * 2.0).train(&Sgd::new(0.1)).recorded(&recorder).wait().expect("it succeeds");
        let recorder_state = Arc::downgrade(&recorder.0);
        drop(recorder);
        assert!(recorder_state.upgrade().is_none());
    }
}
