//! Futures as jobs of the pool of rayon.

use crate::communication::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a future on the pool. No thread is held while the future waits.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    let task = Task { future: Mutex::new(Some(Box::pin(future))), state: AtomicU8::new(QUEUED) };
    Arc::new(task).queue();
}

struct Task {
    /// `None` if it has ended.
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    state: AtomicU8,
}

/// It is neither queued nor polled.
const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const POLLED: u8 = 2;
/// It was woken while it was polled.
const WOKEN: u8 = 3;

impl Task {
    fn queue(self: Arc<Self>) {
        rayon::spawn(move || self.run());
    }

    fn run(self: Arc<Self>) {
        // Acquire: synchronizes with `wake`, so that the poll sees the writes of the thread that woke it.
        self.state.swap(POLLED, Ordering::Acquire);
        let waker = Waker::from(self.clone());
        let mut future = lock(&self.future);
        let polled = future.as_mut().map(|future| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if polled != Some(Poll::Pending) {
            *future = None;
            return;
        }
        drop(future);
        // Release: synchronizes with the swap of the next poll, which may be on another thread.
        if self.state.compare_exchange(POLLED, IDLE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.state.store(QUEUED, Ordering::Release);
            self.queue();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let next = |state| match state {
            IDLE => Some(QUEUED),
            POLLED => Some(WOKEN),
            _ => None,
        };
        // Release: synchronizes with the swap in `run`. Acquire is not needed, but `AcqRel` is the
        // ordering of a read and a write.
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next) == Ok(IDLE) {
            self.queue();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::channel;

    #[test]
    fn task_that_is_woken_many_times_is_polled_again() {
        let (sender, receiver) = channel();
        let polls = AtomicU32::new(0);
        spawn(std::future::poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
            if polls.fetch_add(1, Ordering::Relaxed) < 1_000 {
                return Poll::Pending;
            }
            sender.send(polls.load(Ordering::Relaxed)).unwrap();
            Poll::Ready(())
        }));
        assert_eq!(receiver.recv().unwrap(), 1_001);
    }

    #[test]
    fn task_is_woken_by_other_thread() {
        let (sender, receiver) = channel();
        let (value, future) = futures::channel::oneshot::channel();
        spawn(async move { sender.send(future.await.unwrap()).unwrap() });
        std::thread::spawn(move || value.send(7).unwrap());
        assert_eq!(receiver.recv().unwrap(), 7);
    }
}
