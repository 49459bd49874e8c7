//! Waiting for a run: on a thread that parks while nothing can be done.

use crate::exec;
use dl_parallel::sync::{AtomicBool, Ordering, Thread, current, park};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Polls a future to its end on this thread, which parks while nothing can be done.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Arc::new(Parker { thread: current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(parker.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(result) => return result,
            Poll::Pending => exec::parking(|| parker.park()),
        }
    }
}

/// Polls a future to its end on this thread, which executes the passes that the future runs.
pub fn work_on<F: Future>(future: F) -> F::Output {
    exec::outside(|| block_on(future))
}

/// Wakes a thread that waits. Every wait has one of its own, and does not trust the token of its
/// thread alone: a wait inside this one, or other code that parks, may have used it up.
struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Parker {
    fn park(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            park();
        }
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
