//! Waiting for a run: on a thread that parks while nothing can be done.

use crate::exec;
use dl_parallel::backoff;
use dl_parallel::sync::{AtomicBool, Ordering, Thread, current, park};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The answers of other ranks that threads of this process wait for. While there are any, a waiting
/// thread polls before it parks.
#[doc(hidden)]
pub static ANSWERS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Polls a future to its end on this thread, which parks while nothing can be done.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    drive(future, false)
}

/// With `polls`, the thread polls before it parks.
fn drive<F: Future>(future: F, polls: bool) -> F::Output {
    let mut future = pin!(future);
    let parker = Arc::new(Parker { thread: current(), woken: AtomicBool::new(false), polls });
    let waker = Waker::from(parker.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(result) => return result,
            Poll::Pending => exec::parking(|| parker.park()),
        }
    }
}

/// Polls a future to its end on this thread, which executes the passes that the future runs. The
/// thread polls for what wakes it before it parks.
pub fn work_on<F: Future>(future: F) -> F::Output {
    exec::outside(|| drive(future, true))
}

/// Wakes a thread that waits. Every wait has one of its own, and does not trust the token of its
/// thread alone: a wait inside this one, or other code that parks, may have used it up.
struct Parker {
    thread: Thread,
    woken: AtomicBool,
    polls: bool,
}

impl Parker {
    fn park(&self) {
        // Relaxed: a thread that parks too early is woken.
        if self.polls || ANSWERS.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            backoff::wait_for_thread(|| self.woken.load(Ordering::Relaxed));
        }
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
