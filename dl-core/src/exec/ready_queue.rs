//! The ready queue: jobs whose inputs are ready, with their estimated costs.

use crate::exec::dispatch::{EXAMINED_JOBS, INVITE_NS, SPARE_NS, sane_cost};
use crate::exec::later::Served;
use crate::exec::lifetime::Ticket;
use std::collections::{HashSet, VecDeque};

pub(super) struct Job {
    pub(super) what: Work,
    pub(super) nanoseconds: f64,
    /// Whether the job is local: best run by a driver.
    pub(super) is_local: bool,
}

pub(super) enum Work {
    /// Run the kernel of this slot.
    Kernel(u32),
    /// Poll the future of this dynamic node.
    Task(u32),
    /// Work through the queue of a pass that was started inside this one.
    Help(Ticket),
    /// Complete the nodes of these reads.
    Served(Served),
}

#[derive(Default)]
pub(super) struct ReadyQueue {
    shared: Jobs,
    /// The local jobs: kernels that a driver should run. Drivers take them first, helpers last, and
    /// no helper is invited for them.
    local: Jobs,
    last_is_local: bool,
}

#[derive(Default)]
struct Jobs {
    jobs: VecDeque<Job>,
    nanoseconds: f64,
}

impl ReadyQueue {
    pub(super) fn reset(&mut self) {
        for jobs in [&mut self.shared, &mut self.local] {
            jobs.jobs.clear();
            jobs.nanoseconds = 0.0;
        }
    }

    pub(super) fn push(&mut self, what: Work, nanoseconds: f64) {
        self.push_job(what, nanoseconds, false);
    }

    /// Queues a kernel as a local job.
    pub(super) fn push_local(&mut self, index: u32, nanoseconds: f64) {
        self.push_job(Work::Kernel(index), nanoseconds, true);
    }

    fn push_job(&mut self, what: Work, nanoseconds: f64, is_local: bool) {
        let nanoseconds = sane_cost(nanoseconds);
        let jobs = self.jobs(is_local);
        jobs.nanoseconds += nanoseconds;
        jobs.jobs.push_back(Job { what, nanoseconds, is_local });
        self.last_is_local = is_local;
    }

    fn jobs(&mut self, is_local: bool) -> &mut Jobs {
        if is_local { &mut self.local } else { &mut self.shared }
    }

    /// Takes the next job. Drivers pop from the front and helpers from the back, so each thread
    /// tends to run the same kernels in every step, with their operands in its caches. Polls of
    /// bodies are first in, first out, because a body may wake itself repeatedly.
    pub(super) fn pop(&mut self, helps: bool) -> Option<Job> {
        let is_local = if helps { self.shared.jobs.is_empty() } else { !self.local.jobs.is_empty() };
        let at_back = helps && self.jobs(is_local).ends_with_kernel();
        // No helper is invited for a local job.
        let is_little_beside = self.jobs(is_local).is_dear_beside_kernel(at_back) && !self.is_worth_sharing();
        let Jobs { jobs, .. } = self.jobs(is_local);
        if is_little_beside {
            if at_back { jobs.rotate_right(1) } else { jobs.rotate_left(1) }
        }
        self.jobs(is_local).pop(at_back)
    }

    /// Makes the kernel that was queued last the next job of a driver: its operands are in the
    /// caches of the thread that has just computed one of them.
    pub(super) fn bring_last_forward(&mut self) {
        let jobs = self.jobs(self.last_is_local);
        if jobs.ends_with_kernel() {
            jobs.jobs.rotate_right(1);
        }
    }

    /// Removes the jobs of these dynamic nodes.
    pub(super) fn forget_tasks(&mut self, indices: &[u32]) {
        if !indices.is_empty() {
            let forgotten: HashSet<u32> = indices.iter().copied().collect();
            let Jobs { jobs, nanoseconds } = &mut self.shared;
            jobs.retain(|job| !matches!(job.what, Work::Task(index) if forgotten.contains(&index)));
            *nanoseconds = jobs.iter().map(|job| job.nanoseconds).sum();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shared.jobs.len() + self.local.jobs.len()
    }

    /// The number of jobs for other threads: all jobs, less one if the calling thread takes one.
    pub(super) fn spare(&self, takes_one: bool) -> usize {
        match takes_one {
            true => self.shared.jobs.len().saturating_sub(usize::from(self.local.jobs.is_empty())),
            false => self.len(),
        }
    }

    /// Whether inviting helpers pays off if the calling thread takes one job: a local one, or the
    /// most expensive of the first few.
    pub(super) fn is_worth_sharing(&self) -> bool {
        let Jobs { jobs, nanoseconds } = &self.shared;
        if *nanoseconds < INVITE_NS {
            return false;
        }
        let longest = match self.local.jobs.is_empty() {
            true => jobs.iter().take(EXAMINED_JOBS).map(|job| job.nanoseconds).fold(0.0, f64::max),
            false => 0.0,
        };
        nanoseconds - longest >= SPARE_NS
    }

    /// Whether all jobs are local.
    pub(super) fn is_all_local(&self) -> bool {
        self.shared.jobs.is_empty()
    }

    /// The estimated cost of all jobs that are not local, in nanoseconds.
    pub(super) fn nanoseconds(&self) -> f64 {
        self.shared.nanoseconds
    }
}

impl Jobs {
    fn pop(&mut self, from_back: bool) -> Option<Job> {
        let job = if from_back { self.jobs.pop_back() } else { self.jobs.pop_front() };
        self.nanoseconds = match &job {
            Some(job) if !self.jobs.is_empty() => self.nanoseconds - job.nanoseconds,
            _ => 0.0, // sums are rounded
        };
        job
    }

    /// Whether the job at this end is expensive and has a kernel beside it. A body must not be
    /// queued behind a kernel that may wait for it: the body would wake itself until the kernel has
    /// run.
    fn is_dear_beside_kernel(&self, at_back: bool) -> bool {
        let from_end = |which: usize| match at_back {
            true => self.jobs.len().checked_sub(1 + which).map(|place| &self.jobs[place]),
            false => self.jobs.get(which),
        };
        let is_dear = from_end(0).is_some_and(|job| job.nanoseconds >= INVITE_NS);
        is_dear && matches!(from_end(1), Some(Job { what: Work::Kernel(_), .. }))
    }

    fn ends_with_kernel(&self) -> bool {
        matches!(self.jobs.back(), Some(Job { what: Work::Kernel(_), .. }))
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    fn ready_queue(kernels: &[f64]) -> ReadyQueue {
        let mut queue = ReadyQueue::default();
        for (index, &nanoseconds) in (0..).zip(kernels) {
            queue.push(Work::Kernel(index), nanoseconds);
        }
        queue
    }

    fn taken(mut queue: ReadyQueue, helps: bool) -> Vec<u32> {
        let jobs = std::iter::from_fn(|| queue.pop(helps));
        jobs.map(|job| if let Work::Kernel(index) | Work::Task(index) = job.what { index } else { u32::MAX }).collect()
    }

    #[test]
    fn cheap_job_is_popped_before_expensive_one() {
        assert_eq!(taken(ready_queue(&[1e6, 1_000.0, 1_000.0]), false), [1, 2, 0]);
        assert_eq!(taken(ready_queue(&[1_000.0, 1_000.0, 1e6]), true), [1, 0, 2]);
        assert_eq!(taken(ready_queue(&[1e6, 20_000.0]), false), [0, 1], "somebody is called for the second");
    }

    #[test]
    fn local_jobs_invite_no_thread() {
        let mut queue = ReadyQueue::default();
        for index in 0..100 {
            queue.push_local(index, 1_000.0);
        }
        assert!(
            queue.is_all_local() && !queue.is_worth_sharing() && (queue.spare(true), queue.spare(false)) == (0, 100)
        );
        queue.push(Work::Kernel(100), 20_000.0);
        assert!(
            !queue.is_all_local() && queue.is_worth_sharing() && queue.spare(true) == 1,
            "whoever drives has the others"
        );
        let next = |queue: &mut ReadyQueue, helps| queue.pop(helps).expect("it is there").is_local;
        assert!(next(&mut queue, false), "and has them first");
        assert!(!next(&mut queue, true) && next(&mut queue, true), "who helps has them last");
        assert!(queue.is_all_local() && queue.len() == 98);
    }

    #[test]
    fn body_is_not_moved_before_kernel() {
        let mut queue = ready_queue(&[1e6]);
        queue.push(Work::Task(1), 5_000.0);
        assert_eq!(taken(queue, false), [0, 1]);
    }

    #[test]
    fn body_is_worth_sharing_beside_any_job() {
        assert!(!ready_queue(&[1e6, 1_500.0, 1_500.0, 1_500.0]).is_worth_sharing());
        for dear in (0..100_000).map(|i| 10_000.0 + 0.3 * f64::from(i)) {
            let mut queue = ready_queue(&[dear]);
            for _ in 0..3 {
                queue.push(Work::Task(1), 5_000.0);
                assert!(queue.is_worth_sharing(), "{dear}");
                queue.shared.jobs.swap(0, 1);
                queue.pop(false);
            }
        }
    }
}
