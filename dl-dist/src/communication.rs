//! How the threads of a rank reach other ranks: they queue messages for the
//! [communication thread](thread), and wait for what it delivers.
//!
//! A contribution to an exchange goes to the thread that waits for it. An answer goes to the future
//! that waits for it. A request goes to the [`Receiver`] of this rank, which must not block.
//!
//! Lock rule: no lock is held while a future is woken, or a receiver is called, because both may
//! drop values that queue a message.

mod thread;

pub(crate) use thread::{Receiver, Thread, start_thread};

use crate::Engine;
use crate::heartbeat::Lost;
use crate::message::{Kind, decode, encode, unsealed};
use crate::turn::Turn;
use dl_core::parallel::backoff;
use dl_core::parts::{ANSWERS, Wire};
use dl_core::{Error, Result};
use futures::channel::oneshot;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// The number of messages that this rank has sent to another one.
///
/// ```
/// let sent = dl_dist::Cluster::run_on(2, |cluster| Ok(cluster.sent_to(1 - cluster.rank())))?;
/// assert_eq!((sent[0].calls, sent[0].exchanges), (0, 0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Messages {
    /// Those of calls between the two ranks: calls, derivatives, votes, decisions, releases, and
    /// the answers to them. It is 0 if no function of the other rank was called.
    pub calls: u64,
    /// Contributions to exchanges of all ranks: comparisons, sums of the parts of a batch, votes.
    pub exchanges: u64,
}

/// How threads of this rank reach its communication thread.
pub(crate) struct Communication {
    rank: usize,
    #[cfg_attr(not(has_mpi), allow(dead_code, reason = "threads are one process"))]
    host: String,
    waker: Option<Box<dyn Fn() + Send + Sync>>,
    outgoing: Mutex<VecDeque<Outgoing>>,
    /// How many messages were queued so far.
    queued: AtomicU64,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    /// How often something has arrived in the inbox.
    arrivals: AtomicU64,
    next_request: AtomicU64,
    pub(crate) turn: Turn,
    /// The number of the last exchange to which each rank has contributed.
    exchanges: Vec<AtomicU64>,
    sent: Vec<[AtomicU64; 2]>,
    /// The hosts and processes of all ranks, as soon as they are known.
    processes: OnceLock<Vec<String>>,
    /// The number of the last step that was taken; 0 before the first.
    last_step: AtomicU64,
}

/// A message that is not sent yet: the receiver, the kind, the number, room for a header and the
/// body.
type Outgoing = (usize, Kind, u64, Vec<u8>);

/// Receives the answer to a request, or the reason why there is none.
type Waiting = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

#[derive(Default)]
struct Inbox {
    /// Contributions that are not taken yet, by rank and number of the exchange.
    exchanges: HashMap<(usize, u64), Vec<u8>>,
    /// The contributions of this rank that the engine has sent, by receiver and number.
    sent: HashSet<(usize, u64)>,
    /// The requests without an answer, and the rank that each was sent to.
    requests: HashMap<u64, (usize, Waiting)>,
    /// For each rank that will send nothing any more to exchanges: why.
    ended: HashMap<usize, Error>,
    /// The ranks that answer no request any more.
    lost: HashMap<usize, Error>,
    /// Whether the program of this rank has ended, and whether it has failed.
    ends: bool,
    failed: bool,
    /// Whether the job will be aborted, because a rank is lost.
    aborts: bool,
    /// How many threads sleep until something arrives.
    sleeping: usize,
}

impl Communication {
    fn with(engine: &dyn Engine) -> Self {
        Communication {
            rank: engine.rank(),
            host: engine.host(),
            waker: engine.waker(),
            outgoing: Mutex::default(),
            queued: AtomicU64::new(0),
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            arrivals: AtomicU64::new(0),
            next_request: AtomicU64::new(0),
            turn: Turn::default(),
            exchanges: (0..engine.size()).map(|_| AtomicU64::new(0)).collect(),
            sent: (0..engine.size()).map(|_| Default::default()).collect(),
            processes: OnceLock::new(),
            last_step: AtomicU64::new(0),
        }
    }

    /// Sets the names of the processes of all ranks, for messages.
    #[cfg_attr(not(has_mpi), allow(dead_code, reason = "threads are one process"))]
    pub(crate) fn set_processes(&self, names: Vec<String>) {
        let _ = self.processes.set(names);
    }

    pub(crate) fn stepped(&self, step: u64) {
        self.last_step.store(step, Ordering::Relaxed);
    }

    fn lost(&self, rank: usize, silence: Duration) -> Lost {
        let process = self.processes.get().and_then(|names| names.get(rank).cloned());
        let step = Some(self.last_step.load(Ordering::Relaxed)).filter(|&step| step > 0);
        Lost { rank, process, silence, step }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// The number of the last exchange to which another rank has contributed.
    pub(crate) fn last_exchange(&self, from: usize) -> u64 {
        // Relaxed: a call that was made after the contribution arrives after it, on the same thread.
        self.exchanges[from].load(Ordering::Relaxed)
    }

    /// The machine of this rank.
    #[cfg(has_mpi)]
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn size(&self) -> usize {
        self.sent.len()
    }

    pub(crate) fn sent_to(&self, rank: usize) -> Messages {
        let [calls, exchanges] = [0, 1].map(|class| self.sent[rank][class].load(Ordering::Relaxed));
        Messages { calls, exchanges }
    }

    /// Queues a message with this body. It takes one lock, for a short time, so destructors may
    /// call it.
    pub(crate) fn queue(&self, to: usize, kind: Kind, id: u64, body: Vec<u8>) {
        self.post(to, kind, id, unsealed(&body, 0));
    }

    /// Queues a message with room for its header.
    pub(crate) fn post(&self, to: usize, kind: Kind, id: u64, message: Vec<u8>) {
        if to >= self.size() {
            return; // a number in a damaged message
        }
        lock(&self.outgoing).push_back((to, kind, id, message));
        // Release: the communication thread that sees the number finds the message.
        self.queued.fetch_add(1, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        self.waker.iter().for_each(|wake| wake());
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }

    /// Changes the inbox, and wakes the threads that wait for contributions.
    fn arrive(&self, change: impl FnOnce(&mut Inbox)) {
        let mut inbox = self.inbox();
        change(&mut inbox);
        self.arrivals.fetch_add(1, Ordering::Release);
        let sleeps = inbox.sleeping > 0;
        drop(inbox);
        if sleeps {
            self.arrived.notify_all(); // a system call, whether a thread waits or not
        }
    }

    /// Waits until something arrives in the inbox: polls as an idle worker does, and then sleeps.
    fn wait_for_arrival<'a>(&'a self, inbox: MutexGuard<'a, Inbox>) -> MutexGuard<'a, Inbox> {
        let seen = self.arrivals.load(Ordering::Acquire);
        let has_arrived = || self.arrivals.load(Ordering::Acquire) != seen;
        drop(inbox);
        backoff::wait_for_thread(has_arrived);
        let mut inbox = self.inbox();
        inbox.sleeping += 1;
        let inbox = self.arrived.wait_while(inbox, |_| !has_arrived());
        let mut inbox = inbox.unwrap_or_else(PoisonError::into_inner);
        inbox.sleeping -= 1;
        inbox
    }

    /// Waits for the contribution of a rank to an exchange, and until the engine has sent that of
    /// this rank to it: otherwise this rank could agree to a step that the other one refuses
    /// because a message is missing. Returns the message with its header.
    pub(crate) fn contribution(&self, from: usize, count: u64) -> Result<Vec<u8>> {
        let mut inbox = self.inbox();
        loop {
            if inbox.sent.contains(&(from, count))
                && let Some(message) = inbox.exchanges.remove(&(from, count))
            {
                inbox.sent.remove(&(from, count));
                return Ok(message);
            }
            let arrived = inbox.exchanges.contains_key(&(from, count));
            let over = inbox.lost.get(&from).or_else(|| inbox.ended.get(&from).filter(|_| !arrived));
            if let Some(error) = over {
                return Err(error.clone());
            }
            inbox = self.wait_for_arrival(inbox);
        }
    }

    /// A number for a request of this rank, which no other request of any rank has.
    pub(crate) fn number_request(&self) -> u64 {
        numbered(self.rank, self.next_request.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a request, and calls `then` with the answer on the communication thread, or here if
    /// the rank is lost.
    fn ask(&self, to: usize, kind: Kind, id: u64, body: Vec<u8>, then: Waiting) {
        if to >= self.size() {
            return then(Err(Error::invalid(format!("there is no rank {to}"))));
        }
        let mut inbox = self.inbox();
        if let Some(error) = inbox.lost.get(&to) {
            let error = error.clone();
            drop(inbox);
            return then(Err(error));
        }
        inbox.requests.insert(id, (to, then));
        drop(inbox);
        self.queue(to, kind, id, body);
    }

    /// Sends a request. The future ends with the answer.
    pub(crate) fn request<V: Wire>(self: &Arc<Self>, to: usize, kind: Kind, body: Vec<u8>) -> Answer<V> {
        let (sender, receiver) = oneshot::channel();
        let id = self.number_request();
        ANSWERS.fetch_add(1, Ordering::Relaxed);
        self.ask(to, kind, id, body, Box::new(move |answer| drop(sender.send(answer))));
        Answer { communication: self.clone(), to, id, receiver, is_taken: false, data: std::marker::PhantomData }
    }

    /// Sends a request and blocks until its answer has come. The answer must not need this thread.
    pub(crate) fn request_blocking<V: Wire>(&self, to: usize, kind: Kind, body: Vec<u8>) -> Result<V> {
        self.start_blocking(to, kind, body).1()
    }

    /// Sends a request. Returns its number, and a function that blocks until its answer has come.
    pub(crate) fn start_blocking<V: Wire>(
        &self,
        to: usize,
        kind: Kind,
        body: Vec<u8>,
    ) -> (u64, impl FnOnce() -> Result<V> + use<V>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let id = self.number_request();
        self.ask(to, kind, id, body, Box::new(move |answer| drop(sender.send(answer))));
        let mut answer = None;
        (id, move || {
            backoff::wait_for_thread(|| {
                answer = receiver.try_recv().ok();
                answer.is_some()
            });
            answer_of(to, &answer.unwrap_or_else(|| receiver.recv().unwrap_or_else(|_| Err(ended(to))))?)
        })
    }

    /// Answers a request of another rank with a value as bytes, or an error.
    pub(crate) fn answer(&self, to: usize, id: u64, answer: Result<&[u8]>) {
        self.queue(to, Kind::Answer, id, encode(answer));
    }
}

/// The numbers of the requests of one rank, and of the modules that are placed on it, begin with
/// the number of the rank.
const NUMBER_BITS: u32 = 48;

/// A number that begins with that of a rank.
pub(crate) fn numbered(rank: usize, number: u64) -> u64 {
    ((rank as u64) << NUMBER_BITS) | number
}

/// The rank that a number begins with.
pub(crate) fn rank_of(number: u64) -> usize {
    usize::try_from(number >> NUMBER_BITS).unwrap_or(usize::MAX)
}

/// The value in an answer, or the error, with the number of the rank.
fn answer_of<V: Wire>(from: usize, bytes: &[u8]) -> Result<V> {
    let answer = decode(bytes).map_err(|error| error.context(format_args!("a message of rank {from}")))?;
    answer.map_err(|error| error.of_rank(from))
}

/// The answer to a request. A request is released if its answer is dropped before it has come.
pub(crate) struct Answer<V> {
    communication: Arc<Communication>,
    to: usize,
    pub(crate) id: u64,
    receiver: oneshot::Receiver<Result<Vec<u8>>>,
    is_taken: bool,
    data: std::marker::PhantomData<fn() -> V>,
}

impl<V: Wire> Future for Answer<V> {
    type Output = Result<V>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<V>> {
        let to = self.to;
        let polled = Pin::new(&mut self.receiver).poll(cx);
        polled.map(|answer| {
            self.is_taken = true;
            answer_of(to, &answer.unwrap_or_else(|_| Err(ended(to)))?)
        })
    }
}

impl<V> Drop for Answer<V> {
    fn drop(&mut self) {
        ANSWERS.fetch_sub(1, Ordering::Relaxed);
        if !self.is_taken {
            let waiting = self.communication.inbox().requests.remove(&self.id);
            drop(waiting);
            self.communication.queue(self.to, Kind::Release, self.id, Vec::new());
        }
    }
}

/// Locks a mutex. The data must be valid even if a thread has panicked while it held the lock.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error that a rank has ended. It is not the cause of a failure.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The rank.
    Rank(usize),
    /// It was the error of another rank, which has passed it on.
    PassedOn(Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Rank(rank) => write!(f, "rank {rank} has ended"),
            Ended::PassedOn(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Ended {}

pub(crate) fn ended(rank: usize) -> Error {
    Error::other(Ended::Rank(rank))
}

/// Whether the error is not the cause of a failure.
pub(crate) fn is_ended(error: &Error) -> bool {
    error.downcast_ref::<Ended>().is_some()
}
