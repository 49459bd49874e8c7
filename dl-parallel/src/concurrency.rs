//! A gauge of the threads that work for a pass: those that work through its queue, and those that
//! help with a kernel. Numbers for statistics and as hints: all orderings are relaxed.

use crate::sync::{AtomicUsize, Ordering};

#[derive(Default)]
pub struct Width {
    working: AtomicUsize,
    /// Those of them that help with a kernel.
    helping: AtomicUsize,
    /// The most that there were at any time.
    most: AtomicUsize,
}

impl Width {
    /// A thread begins to work through the queue.
    pub fn works(&self) {
        let working = 1 + self.working.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(working, Ordering::Relaxed);
    }

    pub fn rests(&self) {
        self.working.fetch_sub(1, Ordering::Relaxed);
    }

    /// This thread helps with a kernel, unless so many threads work already.
    pub fn join(&self, threads: usize, help: impl FnOnce(&Self)) {
        let one_more = |working: usize| (working < threads).then_some(working + 1);
        if let Ok(others) = self.working.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            self.most.fetch_max(others + 1, Ordering::Relaxed);
            struct Helping<'a>(&'a Width);

            impl Drop for Helping<'_> {
                fn drop(&mut self) {
                    self.0.helping.fetch_sub(1, Ordering::Relaxed);
                    self.0.rests();
                }
            }

            self.helping.fetch_add(1, Ordering::Relaxed);
            let _helping = Helping(self);
            help(self);
        }
    }

    pub fn working(&self) -> usize {
        self.working.load(Ordering::Relaxed)
    }

    /// The threads that work through the queue, and look for open regions when it is empty.
    pub fn at_queue(&self) -> usize {
        self.working().saturating_sub(self.helping.load(Ordering::Relaxed))
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    pub fn clear(&self) {
        self.most.store(0, Ordering::Relaxed);
    }
}
