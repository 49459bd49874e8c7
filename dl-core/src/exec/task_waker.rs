//! The wakers of the futures of dynamic nodes.

use crate::exec::Pass;
use crate::exec::lifetime::Ticket;
use dl_parallel::sync::{AtomicU8, AtomicU32, Ordering, fence};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// The waker of a task, as stored in the pass.
#[derive(Clone)]
pub(super) struct Wakeable {
    pub(super) shared: Arc<TaskWaker>,
    /// The waker that the future gets.
    pub(super) waker: Waker,
}

impl Wakeable {
    /// For the first poll of a task. The waker of the task before is reused if no clone of it is
    /// left: most tasks never wait.
    pub(super) fn new(pass: &Arc<Pass>, index: u32, spare: Option<Wakeable>) -> Self {
        if let Some(spare) = spare
            && Arc::strong_count(&spare.shared) == 2
        {
            // Acquire: synchronizes with the drop of the last clone.
            fence(Ordering::Acquire);
            spare.shared.index.store(index, Ordering::Relaxed);
            spare.shared.state.store(POLLED, Ordering::Relaxed);
            return spare;
        }
        let (index, state) = (AtomicU32::new(index), AtomicU8::new(POLLED));
        let shared = Arc::new(TaskWaker { pass: Ticket::of(pass), index, state });
        Wakeable { waker: Waker::from(shared.clone()), shared }
    }
}

pub(super) struct TaskWaker {
    pass: Ticket,
    pub(super) index: AtomicU32,
    state: AtomicU8,
}

/// The task is being polled.
const POLLED: u8 = 0;
/// A wake-up arrived while it was being polled, or it is queued.
const WOKEN: u8 = 1;
/// It waits for a wake-up.
const PARKED: u8 = 2;

impl TaskWaker {
    /// Called before the task is polled again.
    pub(super) fn polled(&self) {
        // AcqRel: synchronizes with the waker's `swap(WOKEN)`. A wake-up that arrives while the
        // task is queued is satisfied by this poll, which must see everything written before it
        self.state.swap(POLLED, Ordering::AcqRel);
    }

    /// The task waits from now on, unless a wake-up has arrived.
    pub(super) fn park(&self) -> bool {
        // AcqRel: synchronizes with `wake_by_ref`, in either direction.
        self.state.compare_exchange(POLLED, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: synchronizes with `polled` and `park`.
        if self.state.swap(WOKEN, Ordering::AcqRel) == PARKED
            && let Some(pass) = self.pass.upgrade()
        {
            pass.wake_task(self);
        }
    }
}
