//! The threads that work for a pass, and its parallel regions: kernels that several threads share
//! (see `dl_parallel::fork_join`).
//!
//! Invitations reach workers of the pool only. An idle driver may be another thread or a worker
//! that waits, and a helper may be spinning for jobs. All of these find open regions in the state
//! of the pass.
//!
//! A kernel may hold a lock of user code, and a cost estimate that runs under the state lock may
//! wait for the same lock. So a thread that divides a kernel must not wait for the state lock.

use crate::exec::state::PassState;
use crate::exec::{Help, Pass, computing, user_code, with_computing};
use dl_parallel::concurrency::Width;
use dl_parallel::fork_join::{RegionObserver, Team, observe};
use dl_parallel::memory::buffers;
use dl_parallel::sync::Ordering;
use smallvec::SmallVec;
use std::sync::{Arc, Once, Weak};
use std::task::Waker;

/// The threads that work for a pass, as far as they are counted under the state lock.
#[derive(Default)]
pub(super) struct Workers {
    /// The number of tickets that helpers hold.
    pub(super) tickets: usize,
    /// Workers of this pass that are blocked in a nested wait. They count as unavailable when help
    /// is requested.
    pub(super) blocked: usize,
    /// Drivers that poll the queue or run a local job.
    pub(super) active_drivers: usize,
    /// Threads that run a job, so that they hold slot numbers without the lock. Nodes must not be
    /// freed meanwhile.
    pub(super) running: usize,
    /// Whether the last owner has been dropped.
    pub(super) retired: bool,
    /// Open regions. Some may have ended already.
    regions: Vec<Arc<Team>>,
}

impl Workers {
    pub(super) fn reset(&mut self) {
        (self.tickets, self.blocked, self.active_drivers, self.running) = (0, 0, 0, 0);
        self.retired = false;
        // A thread that divides a kernel only tries the lock to remove its region.
        self.regions.clear();
    }

    /// Whether a region has unclaimed chunks.
    pub(super) fn has_open_region(&self) -> bool {
        self.regions.iter().any(|region| region.has_more())
    }
}

/// A kernel that a thread divides, and the pass that the thread computes for.
struct Kernel<'a> {
    pass: &'a Arc<Pass>,
    help: Help,
}

impl RegionObserver for Kernel<'_> {
    fn width(&self) -> &Width {
        &self.pass.width
    }

    fn announce(&self, region: &Arc<Team>, wanted: usize) -> bool {
        self.pass.tell_of(region, wanted)
    }

    fn retire(&self, region: &Arc<Team>) {
        self.pass.forget(region);
    }

    fn enter_helper(&self, help: &mut dyn FnMut()) {
        computing(self.pass, || self.pass.helping(&self.help, help));
    }
}

/// Lets `dl_parallel` find the pass of a thread that divides a kernel or takes a free buffer.
pub(super) fn connect() {
    static CONNECTED: Once = Once::new();
    CONNECTED.call_once(|| {
        observe(|divide| {
            with_computing(|pass| match pass {
                Some(pass) => divide(Some(&Kernel { pass, help: Help::here() })),
                None => divide(None),
            });
        });
        buffers::on_reuse(|| {
            with_computing(|pass| _ = pass.map(|pass| pass.reused_buffers.fetch_add(1, Ordering::Relaxed)));
        });
    });
}

impl Pass {
    /// Announces a region, of this pass or of a nested one, and wakes at most `wanted` drivers.
    /// Does nothing if the state lock is not free, as this thread may hold it. While weights are
    /// changed no driver is woken: a waker is user code, which must not run under commit locks.
    fn tell_of(&self, team: &Arc<Team>, wanted: usize) -> bool {
        let Some(mut state) = self.try_state() else { return false };
        // The region may be listed already, if the lock of the parent pass was not free.
        state.workers.regions.retain(|other| other.has_more() && !Arc::ptr_eq(other, team));
        state.workers.regions.push(team.clone());
        if self.commits.load(Ordering::Relaxed) {
            drop(state);
            self.notify_events();
            return true;
        }
        let Some(around) = self.around() else {
            let drivers: SmallVec<[Waker; 2]> = std::iter::from_fn(|| state.drivers.take_idle()).take(wanted).collect();
            drop(state);
            self.notify_events();
            for driver in drivers {
                user_code::ignore_panic(|| driver.wake());
            }
            return true;
        };
        drop(state);
        self.notify_events();
        // The driver of this pass is a body of the parent pass, and the driver of the parent is the
        // waiting thread.
        around.tell_of(team, wanted)
    }

    /// Retires a region. If the state lock is not free, the region stays listed, but closed.
    fn forget(&self, team: &Arc<Team>) {
        if let Some(mut state) = self.try_state() {
            state.workers.regions.retain(|other| !Arc::ptr_eq(other, team));
        }
        if let Some(around) = self.around() {
            around.forget(team);
        }
    }

    /// Changes weights under their commit locks. Helpers that are still spinning join in.
    pub(crate) fn committing<R>(self: &Arc<Self>, change: impl FnOnce() -> R) -> R {
        struct Committed<'a>(&'a Pass);

        impl Drop for Committed<'_> {
            fn drop(&mut self) {
                self.0.width.rests();
                self.0.commits.store(false, Ordering::Relaxed);
            }
        }

        self.commits.store(true, Ordering::Relaxed);
        self.width.works();
        let _committed = Committed(self);
        computing(self, change)
    }

    fn around(&self) -> Option<Arc<Pass>> {
        self.around.as_ref().and_then(Weak::upgrade)
    }

    /// Whether there is a job or an open region.
    pub(super) fn has_work(&self, state: &PassState) -> bool {
        state.ready.len() > 0 || self.open_region(state).is_some()
    }

    /// A region that admits one more thread.
    pub(super) fn open_region<'a>(&self, state: &'a PassState) -> Option<&'a Arc<Team>> {
        state.workers.regions.iter().find(|team| team.takes_one_more(self.width.working()))
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::Pass;
    use crate::exec::exclusive_pass::Unshared;
    use crate::exec::inline::tests::{Probe, on_threads};
    use crate::{Differentiable, Do, Layer, parallel};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;

    /// Divides a kernel while another thread holds the state lock of the pass around, from the
    /// announcement of the region to its end. Returns how many regions were announced there.
    fn divide(inner: &Arc<Pass>) -> usize {
        let (leader, outer) = (thread::current().id(), inner.around().expect("it waits"));
        let (begun, held) = (AtomicBool::new(false), Mutex::new(None));
        let (over, is_over) = mpsc::channel::<()>();
        let is_over = Mutex::new(Some(is_over));
        parallel::for_each(4, 1e6, |_| {
            if thread::current().id() != leader {
                while !begun.load(Ordering::Acquire) {
                    thread::yield_now(); // the leader has announced the region, and runs one of the pieces
                }
            } else if let Some(is_over) = is_over.lock().expect("nobody panics").take() {
                let (tell, crews) = mpsc::channel();
                let outer = outer.clone();
                let holder = thread::spawn(move || {
                    let state = outer.state();
                    tell.send(state.workers.regions.len()).expect("somebody waits");
                    let _ = is_over.recv();
                });
                let crews = crews.recv().expect("a region is announced");
                *held.lock().expect("nobody panics") = Some((holder, crews));
                begun.store(true, Ordering::Release);
            }
        });
        drop(over);
        let (holder, crews) = held.into_inner().expect("nobody panics").expect("there was a first piece");
        holder.join().expect("it ends");
        crews
    }

    #[test]
    fn region_not_retired_is_dropped_with_pass() {
        let known = Arc::<AtomicUsize>::default();
        let run = || {
            let known = known.clone();
            // the pass of the body has no layer of its own
            let body = Do::from_fn(move || {
                let known = known.clone();
                let divides = Probe::new(1e6, move |inner| known.store(divide(inner), Ordering::Relaxed));
                let y = Layer::apply(divides, (Layer::constant(1.0),));
                async move { y.predict().await }
            });
            assert_eq!(body.wait().expect("it succeeds"), 2.0);
            // more than a thread keeps
            let passes = [(); 5].map(|()| Unshared::take());
            assert!(passes.iter().all(|pass| pass.state().workers.regions.is_empty()));
        };
        // if a helper holds the lock in that moment the region is not announced
        let tried = on_threads(2, || {
            (0..100).any(|_| {
                run();
                known.load(Ordering::Relaxed) == 1
            })
        });
        assert!(tried);
    }
}
