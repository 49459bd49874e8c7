//! The thread of a rank that computes the requests of other ranks.

use crate::communication::start_thread;
use dl_core::Result;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::future::BoxFuture;
use std::future::Future;
use std::thread::JoinHandle;

/// A thread that computes all requests side by side. A request that waits for other ranks does not
/// hold it. As every thread that waits for passes, it is helped by the workers of the pool, but does
/// not depend on them: they may be busy with, or poll for, work of other threads.
pub(crate) struct Requests {
    sender: UnboundedSender<BoxFuture<'static, ()>>,
    thread: JoinHandle<()>,
}

impl Requests {
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn start(rank: usize) -> Result<Requests> {
        let (sender, requests) = unbounded::<BoxFuture<'static, ()>>();
        let all = move || dl_core::parts::work_on(requests.for_each_concurrent(None, |request| request));
        Ok(Requests { sender, thread: start_thread(format!("dl-requests-{rank}"), all)? })
    }

    /// Computes a request. It must not panic.
    pub(crate) fn run(&self, request: impl Future<Output = ()> + Send + 'static) {
        // Without the thread, nothing is computed.
        let _ = self.sender.unbounded_send(Box::pin(request));
    }

    /// Waits until all requests have ended.
    pub(crate) fn end(self) {
        drop(self.sender);
        // A panic of the thread has been printed; there is nothing else to do with it.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn request_that_waits_lets_others_run() {
        let (requests, (sender, receiver)) = (Requests::start(0).unwrap(), channel());
        let (first, second) = (sender.clone(), sender);
        let (value, waits) = futures::channel::oneshot::channel();
        requests.run(async move { first.send(waits.await.unwrap()).unwrap() });
        requests.run(async move { second.send(1).unwrap() });
        assert_eq!(receiver.recv(), Ok(1));
        value.send(2).unwrap();
        requests.end();
        assert_eq!(receiver.recv(), Ok(2));
    }
}
