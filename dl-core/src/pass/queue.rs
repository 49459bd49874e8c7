//! What is ready to run in a pass, with a guess of how long it takes.

use super::Pass;
use super::work::WORTH_OFFERING_NANOSECONDS;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

pub(super) struct Job {
    pub(super) what: Work,
    pub(super) nanoseconds: f64,
}

pub(super) enum Work {
    /// Evaluate the operation of this entry, and those that follow it in its chain.
    Kernel(u32),
    /// Poll the future of this dynamic node.
    Task(u32),
    /// Work through the queue of a pass that was started inside this one.
    Help(Arc<Pass>),
}

#[derive(Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    nanoseconds: f64,
}

/// What does not say how long it takes may take long: it is worth calling somebody for.
const UNKNOWN_NANOSECONDS: f64 = 5_000.0;
/// A second: no guess needs to be longer.
const LONGEST_NANOSECONDS: f64 = 1e9;

/// More jobs than this are enough for others whatever one of them takes.
const FEW: usize = 8;

impl Queue {
    pub(super) fn clear(&mut self) {
        self.jobs.clear();
        self.nanoseconds = 0.0;
    }

    pub(super) fn push(&mut self, what: Work, nanoseconds: f64) {
        // a guess that makes no sense must not spoil the sum
        let nanoseconds = if nanoseconds >= 0.0 { nanoseconds.min(LONGEST_NANOSECONDS) } else { UNKNOWN_NANOSECONDS };
        self.nanoseconds += nanoseconds;
        self.jobs.push_back(Job { what, nanoseconds });
    }

    /// The next job of whoever drives the pass, or of somebody who helps: helpers take kernels from the other end, so that everybody mostly meets in each pass what he has met in
    /// the one before, and has it in his caches. Bodies come in turn, as one may wake itself again and again.
    pub(super) fn pop(&mut self, helps: bool) -> Option<Job> {
        if !helps && self.begins_with_dear() {
            self.jobs.rotate_left(1);
        }
        let job = if helps && self.ends_with_kernel() { self.jobs.pop_back() } else { self.jobs.pop_front() };
        self.nanoseconds = match &job {
            Some(job) if !self.jobs.is_empty() => self.nanoseconds - job.nanoseconds,
            _ => 0.0,
        };
        job
    }

    /// Whether a little, for which nobody is called, would wait long for the first.
    fn begins_with_dear(&self) -> bool {
        let first = self.jobs.front().map_or(0.0, |job| job.nanoseconds);
        first >= WORTH_OFFERING_NANOSECONDS && self.jobs.len() > 1 && !self.is_worth_sharing()
    }

    fn ends_with_kernel(&self) -> bool {
        matches!(self.jobs.back(), Some(Job { what: Work::Kernel(_), .. }))
    }

    /// What has been queued last is the next job of whoever drives the pass.
    pub(super) fn bring_last_forward(&mut self) {
        if let Some(last) = self.jobs.pop_back() {
            self.jobs.push_front(last);
        }
    }

    /// The same job, if it is a kernel, and how long that takes.
    pub(super) fn next_kernel(&self, helps: bool) -> Option<(u32, f64)> {
        match if helps && self.ends_with_kernel() { self.jobs.back() } else { self.jobs.front() } {
            Some(&Job { what: Work::Kernel(index), nanoseconds }) => Some((index, nanoseconds)),
            _ => None,
        }
    }

    /// These dynamic nodes begin anew some other time.
    pub(super) fn forget_tasks(&mut self, indices: &[u32]) {
        if !indices.is_empty() {
            let forgotten: HashSet<u32> = indices.iter().copied().collect();
            self.jobs.retain(|job| !matches!(job.what, Work::Task(index) if forgotten.contains(&index)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether it is worth calling others, if whoever asks is going to take one of the jobs: the longest, at least of the first few.
    pub(super) fn is_worth_sharing(&self) -> bool {
        if self.nanoseconds < WORTH_OFFERING_NANOSECONDS {
            return false;
        }
        let longest = self.jobs.iter().take(FEW).map(|job| job.nanoseconds).fold(0.0, f64::max);
        self.nanoseconds - longest >= UNKNOWN_NANOSECONDS
    }

    /// A guess of how long the queue would keep one thread busy.
    pub(super) fn nanoseconds(&self) -> f64 {
        self.nanoseconds
    }
}
