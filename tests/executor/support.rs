//! Executors and watchdogs.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

pub(crate) use test_support::on_threads;

/// A tokio runtime on the calling thread, or with this number of workers.
pub(crate) fn tokio_runtime(workers: Option<usize>) -> tokio::runtime::Runtime {
    let mut builder = match workers {
        None => tokio::runtime::Builder::new_current_thread(),
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    builder.enable_all().build().unwrap()
}

/// Runs a future as a task of a tokio runtime.
pub(crate) fn on_tokio<F>(workers: Option<usize>, task: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let runtime = tokio_runtime(workers);
    let task = runtime.spawn(task);
    runtime.block_on(task).unwrap()
}

/// Panics if `f` does not return in time. `what` is part of the message.
pub(crate) fn watched<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    test_support::watched_as(|| what.to_owned(), f)
}

/// [`watched`] with the last log entry as part of the message.
pub(crate) fn watched_by_log<R: Send + 'static>(log: &Log, f: impl FnOnce() -> R + Send + 'static) -> R {
    test_support::watched_as(|| log.take().pop().unwrap_or_default(), f)
}

/// A minimal foreign executor, which parks the thread until it is woken.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Signal(Mutex<bool>, Condvar);

    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }
    }

    let mut future = pin!(future);
    let signal = Arc::new(Signal(Mutex::new(false), Condvar::new()));
    let waker = Waker::from(signal.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        *signal.1.wait_while(signal.0.lock().unwrap(), |woken| !*woken).unwrap() = false;
    }
}

/// Log entries in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    /// Removes all entries and returns them.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Whether the long tests are enabled.
pub(crate) fn sweep() -> bool {
    std::env::var_os("DL_SWEEP").is_some_and(|value| value != "0")
}
