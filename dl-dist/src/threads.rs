//! Ranks as threads of one process.

use crate::Engine;
use dl_core::{Error, Result};
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// One rank: a channel to, and one from, every rank.
pub(crate) struct Threads {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

impl Threads {
    /// So many connected ranks.
    pub(crate) fn new(ranks: usize) -> Vec<Threads> {
        let mut all: Vec<Threads> = (0..ranks).map(|rank| Threads { rank, to: Vec::new(), from: Vec::new() }).collect();
        for from in 0..ranks {
            for to in 0..ranks {
                let (sender, receiver) = channel();
                all[from].to.push(sender);
                all[to].from.push(Mutex::new(receiver));
            }
        }
        all
    }
}

impl Engine for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&self, to: usize, message: Vec<u8>) -> Result<()> {
        self.to[to].send(message).map_err(|_| ended(to))
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.from[from].lock().unwrap_or_else(PoisonError::into_inner).recv().map_err(|_| ended(from))
    }
}

/// The error that a rank has ended. It is not the cause of a failure.
#[derive(Debug)]
pub(crate) struct Ended(usize);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} has ended", self.0)
    }
}

impl std::error::Error for Ended {}

fn ended(rank: usize) -> Error {
    Error::other(Ended(rank))
}
