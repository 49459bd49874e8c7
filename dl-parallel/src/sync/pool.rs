//! A thread pool like rayon's, for the model checker. A job waits until a worker is free, which may
//! be never if all workers block.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    size: usize,
    /// The running workers. They are started for work and exit when there is none.
    workers: Vec<usize>,
    jobs: VecDeque<Job>,
}

crate::sync::globals! {
    static POOL: Mutex<Pool> = Mutex::new(Pool { size: 2, workers: Vec::new(), jobs: VecDeque::new() });
}

crate::sync::thread_local! {
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Sets the size of the pool. To be called at the beginning of a model.
pub fn of_size(size: usize) {
    POOL.lock().expect("no panic while it is locked").size = size;
}

pub fn current_num_threads() -> usize {
    POOL.lock().expect("no panic while it is locked").size
}

pub fn current_thread_index() -> Option<usize> {
    WORKER.get()
}

pub fn spawn(work: impl FnOnce() + Send + 'static) {
    let mut pool = POOL.lock().expect("no panic while it is locked");
    pool.jobs.push_back(Box::new(work));
    let free = (0..pool.size).find(|index| !pool.workers.contains(index));
    if let Some(index) = free {
        pool.workers.push(index);
        drop(pool);
        shuttle::thread::spawn(move || run(index));
    }
}

fn run(index: usize) {
    WORKER.set(Some(index));
    loop {
        let mut pool = POOL.lock().expect("no panic while it is locked");
        let Some(job) = pool.jobs.pop_front() else {
            pool.workers.retain(|&other| other != index);
            return;
        };
        drop(pool);
        job();
    }
}
