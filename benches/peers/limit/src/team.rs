//! One or two threads that run the same closure; waiting is by spinning (a rayon wake-up costs more
//! than these phases).
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

struct Shared {
    epoch: AtomicUsize,
    done: AtomicUsize,
    job: AtomicUsize,
    bar: AtomicUsize,
}
pub(crate) struct Team {
    pub(crate) n: usize,
    s: Arc<Shared>,
}
type Job<'a> = &'a (dyn Fn(usize) + Sync);

fn spin(mut cond: impl FnMut() -> bool) {
    let mut i = 0u32;
    while !cond() {
        i += 1;
        if i < 100_000 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

impl Team {
    pub(crate) fn new(n: usize) -> Team {
        let z = || AtomicUsize::new(0);
        let s = Arc::new(Shared { epoch: z(), done: z(), job: z(), bar: z() });
        for t in 1..n {
            let s = s.clone();
            std::thread::spawn(move || {
                let mut e = 0;
                loop {
                    spin(|| s.epoch.load(Acquire) != e);
                    e += 1;
                    let j: &Job = unsafe { &*(s.job.load(Acquire) as *const Job) };
                    j(t);
                    s.done.fetch_add(1, AcqRel);
                }
            });
        }
        Team { n, s }
    }
    pub(crate) fn run(&self, f: Job) {
        if self.n == 1 {
            return f(0);
        }
        let job: Job = f;
        self.s.done.store(0, Release);
        self.s.job.store(&job as *const Job as usize, Release);
        self.s.epoch.fetch_add(1, AcqRel);
        f(0);
        spin(|| self.s.done.load(Acquire) == self.n - 1);
    }
    pub(crate) fn barrier(&self) {
        if self.n > 1 {
            let k = self.s.bar.fetch_add(1, AcqRel);
            let end = (k / self.n + 1) * self.n;
            spin(|| self.s.bar.load(Acquire) >= end);
        }
    }
}
