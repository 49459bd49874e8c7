//! The engine with the threads of one process as ranks.

use crate::Engine;
use dl_core::Result;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A message and its sender; `None` wakes the receiver.
type Sent = Option<(usize, Vec<u8>)>;

/// One rank: a channel to every rank, and one from all of them.
pub(crate) struct Threads {
    rank: usize,
    to: Arc<[Sender<Sent>]>,
    from: Receiver<Sent>,
}

impl Threads {
    /// So many connected ranks.
    pub(crate) fn new(ranks: usize) -> Vec<Threads> {
        let (to, from): (Vec<_>, Vec<_>) = (0..ranks).map(|_| channel()).unzip();
        let to: Arc<[_]> = to.into();
        from.into_iter().enumerate().map(|(rank, from)| Threads { rank, to: to.clone(), from }).collect()
    }
}

impl Engine for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()> {
        // A rank that has ended has said so before, in a message that is waiting here.
        let _ = self.to[to].send(Some((self.rank, message)));
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>> {
        if wait.is_zero() {
            return Ok(self.from.try_recv().unwrap_or_default());
        }
        match self.from.recv_timeout(wait) {
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => unreachable!("this rank has a sender to itself"),
        }
    }

    fn waker(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let to_itself = self.to[self.rank].clone();
        Some(Box::new(move || drop(to_itself.send(None))))
    }
}
