//! The communication thread of a rank: it owns the engine, sends what other threads have queued,
//! and delivers what arrives.
//!
//! A contribution to an exchange goes to the thread that waits for it. An answer goes to the future
//! that waits for it. A request goes to the [`Receiver`] of this rank, which must not block.
//!
//! Lock rule: no lock is held while a future is woken, or a receiver is called, because both may
//! drop values that queue a message.

use crate::Engine;
use crate::heartbeat::{Heartbeat, Lost};
use crate::message::{Header, Kind, decode, encode, unsealed};
use dl_core::parallel::backoff::{self, IdleTimeout};
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
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Takes the requests of other ranks, on the communication thread.
pub(crate) trait Receiver: Send + Sync {
    /// Takes a request. It must not block.
    fn receive(&self, from: usize, header: Header, body: &[u8]);

    /// All calls of a rank that has ended are released.
    fn lost(&self, rank: usize);
}

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
}

/// The communication thread, which ends when the programs of all ranks have ended.
pub(crate) struct Thread {
    communication: Arc<Communication>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts the thread, which makes the engine. `receiver` makes the receiver of requests.
    ///
    /// # Errors
    /// That of the engine.
    pub(crate) fn start<E: Engine + 'static, R: Receiver + Clone + 'static>(
        make: impl FnOnce() -> Result<E> + Send + 'static,
        receiver: impl FnOnce(Arc<Communication>) -> R,
    ) -> Result<(Thread, R)> {
        let (to_caller, made) = std::sync::mpsc::channel::<Result<Communication>>();
        let (to_thread, parts) = std::sync::mpsc::channel::<(Arc<Communication>, R)>();
        let run = move || {
            let mut engine = match make() {
                Ok(engine) => engine,
                Err(error) => return drop(to_caller.send(Err(error))),
            };
            let _ = to_caller.send(Ok(Communication::with(&engine)));
            // Without it, the caller has panicked.
            let Ok((communication, receiver)) = parts.recv() else { return };
            Loop::new(communication, &receiver, &engine).run(&mut engine);
        };
        let handle = std::thread::Builder::new().name("dl-rank".to_owned()).spawn(run);
        let handle = handle.expect("a thread can be started");
        let made = made.recv().unwrap_or_else(|_| Err(Error::invalid("the engine panicked as it was made")));
        let communication = Arc::new(made?);
        let receiver = receiver(communication.clone());
        let _ = to_thread.send((communication.clone(), receiver.clone()));
        Ok((Thread { communication, handle: Some(handle) }, receiver))
    }

    pub(crate) fn communication(&self) -> &Arc<Communication> {
        &self.communication
    }

    /// Ends the rank: tells the others that its program has ended, and whether it failed. Waits
    /// until the programs of all others have ended, if it has not failed: they may call functions
    /// of this rank until then.
    pub(crate) fn end(&mut self, failed: bool) {
        let Some(handle) = self.handle.take() else { return };
        let all = 0..self.communication.sent.len();
        all.filter(|&to| to != self.communication.rank)
            .for_each(|to| self.communication.queue(to, Kind::Ended, u64::from(failed), Vec::new()));
        let mut inbox = self.communication.inbox();
        (inbox.ends, inbox.failed) = (true, failed);
        if inbox.aborts {
            // The thread ends the process, if its main thread does not.
            return;
        }
        if failed {
            for rank in 0..self.communication.sent.len() {
                inbox.ended.entry(rank).or_insert_with(|| ended(rank));
            }
        }
        drop(inbox);
        self.communication.wake();
        // A panic of the thread has been printed; there is nothing else to do with it.
        let _ = handle.join();
    }
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
        self.post(to, kind, id, unsealed(&body));
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
        drop(inbox);
        self.arrived.notify_all();
    }

    /// Waits until something arrives in the inbox: polls as an idle worker does, and then sleeps.
    fn wait_for_arrival<'a>(&'a self, inbox: MutexGuard<'a, Inbox>) -> MutexGuard<'a, Inbox> {
        let seen = self.arrivals.load(Ordering::Acquire);
        let has_arrived = || self.arrivals.load(Ordering::Acquire) != seen;
        drop(inbox);
        backoff::wait(has_arrived);
        let inbox = self.arrived.wait_while(self.inbox(), |_| !has_arrived());
        inbox.unwrap_or_else(PoisonError::into_inner)
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
            backoff::wait(|| {
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
    answer.map_err(|error| error.context(format_args!("rank {from}")))
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

/// The state of the communication thread.
struct Loop<'a> {
    communication: Arc<Communication>,
    receiver: &'a dyn Receiver,
    /// The number of the next message to each rank.
    next_to: Vec<u64>,
    /// The number of the next message from each rank.
    next_from: Vec<u64>,
    /// If ranks can die one by one.
    heartbeat: Option<Heartbeat>,
    /// How many queued messages were sent.
    sent: u64,
    /// When a message was last sent or received, and for how long the thread polls after that.
    last: Instant,
    timeout: IdleTimeout,
}

impl<'a> Loop<'a> {
    fn new(communication: Arc<Communication>, receiver: &'a dyn Receiver, engine: &dyn Engine) -> Self {
        let (rank, size) = (communication.rank, communication.size());
        let heartbeat = engine.silence().map(|silence| Heartbeat::new(rank, size, silence, Instant::now()));
        let (next_to, next_from) = (vec![0; size], vec![0; size]);
        let (last, timeout) = (Instant::now(), IdleTimeout::default());
        Loop { communication, receiver, next_to, next_from, heartbeat, sent: 0, last, timeout }
    }

    fn run(mut self, engine: &mut dyn Engine) {
        let polls = self.communication.waker.is_none();
        let longest = self.heartbeat.as_ref().map_or(LONGEST_WAIT, |heartbeat| heartbeat.interval() / 2);
        let mut wait = SHORTEST_POLL;
        loop {
            // Must precede the sending: the program queues its last message before it ends.
            let is_over = self.is_over();
            let sent = self.send_all(engine);
            if is_over {
                // Requests of this rank may wait for answers.
                (0..self.next_to.len()).for_each(|rank| self.lose(rank, &ended(rank)));
                return engine.end(self.communication.inbox().failed);
            }
            if sent {
                self.active();
            }
            match self.receive(engine, if polls { wait } else { longest }) {
                Ok(Some((from, message))) => {
                    wait = SHORTEST_POLL;
                    self.heartbeat.iter_mut().for_each(|heartbeat| heartbeat.heard(from, Instant::now()));
                    // An empty one is a sign of life.
                    let delivered = if message.is_empty() {
                        Ok(())
                    } else {
                        self.active();
                        self.deliver(from, message)
                    };
                    if let Err(error) = delivered {
                        self.lose(from, &error.context(format_args!("a message of rank {from}")));
                    }
                }
                Ok(None) if sent => wait = SHORTEST_POLL,
                Ok(None) => wait = (wait * 2).min(LONGEST_POLL),
                Err(error) => self.lose_all(&error),
            }
            if let Some(lost) = self.beat(engine) {
                return self.abort(engine, lost);
            }
        }
    }

    /// Counts as active from now on for the length of a timeout.
    fn active(&mut self) {
        self.last = Instant::now();
        self.timeout.record_arrival(self.last);
    }

    /// The next message. The thread polls, and yields the processor between polls, until the
    /// timeout of an idle worker; then the engine waits. Returns early if there is something to
    /// send.
    fn receive(&mut self, engine: &mut dyn Engine, wait: Duration) -> Result<Option<(usize, Vec<u8>)>> {
        let mut received = Ok(None);
        let mut is_ready = || {
            received = engine.receive(Duration::ZERO);
            // Acquire: the messages are in the queue.
            !matches!(received, Ok(None)) || self.communication.queued.load(Ordering::Acquire) != self.sent
        };
        while self.last.elapsed() < self.timeout.get() {
            if backoff::spin(POLLS, &mut is_ready) {
                return received;
            }
            std::thread::yield_now();
        }
        engine.receive(wait)
    }

    /// Sends signs of life, if it is time. Returns the rank that is silent for too long.
    fn beat(&mut self, engine: &mut dyn Engine) -> Option<Lost> {
        let heartbeat = self.heartbeat.as_mut()?;
        let now = Instant::now();
        if heartbeat.is_due(now) {
            let others = (0..self.next_to.len()).filter(|&to| to != self.communication.rank);
            // A rank that cannot be reached will be silent.
            others.for_each(|to| drop(engine.send(to, Vec::new())));
        }
        heartbeat.silent(now).map(|(rank, silence)| self.communication.lost(rank, silence))
    }

    /// Fails everything that waits, gives the program a moment to end by itself, and ends the job.
    fn abort(&mut self, engine: &mut dyn Engine, lost: Lost) {
        let reason = format!("rank {}: {lost}", self.communication.rank);
        let has_ended = {
            let mut inbox = self.communication.inbox();
            inbox.aborts = true;
            inbox.ends
        };
        self.lose_all(&Error::other(lost));
        if !has_ended {
            std::thread::sleep(LAST_WORDS);
        }
        engine.abort(&reason);
    }

    fn lose_all(&self, error: &Error) {
        (0..self.next_to.len()).for_each(|rank| self.lose(rank, error));
    }

    /// Sends all queued messages. Returns whether there were any.
    fn send_all(&mut self, engine: &mut dyn Engine) -> bool {
        let mut any = false;
        loop {
            let next = lock(&self.communication.outgoing).pop_front();
            let Some((to, kind, id, mut message)) = next else { return any };
            any = true;
            self.sent += 1;
            self.communication.sent[to][usize::from(!kind.is_of_call())].fetch_add(1, Ordering::Relaxed);
            let header = Header { kind, id, number: self.next_to[to] };
            self.next_to[to] += 1;
            header.seal(&mut message);
            match engine.send(to, message) {
                Ok(()) if kind == Kind::Exchange => {
                    self.communication.arrive(|inbox| {
                        inbox.sent.insert((to, id));
                    });
                }
                Ok(()) => {}
                Err(error) => self.lose(to, &error.context(format_args!("a message to rank {to}"))),
            }
        }
    }

    /// Whether the programs of all ranks have ended.
    fn is_over(&self) -> bool {
        let inbox = self.communication.inbox();
        let others = (0..self.next_to.len()).filter(|&rank| rank != self.communication.rank);
        inbox.ends && others.into_iter().all(|rank| inbox.ended.contains_key(&rank))
    }

    fn deliver(&mut self, from: usize, message: Vec<u8>) -> Result<()> {
        let (header, body) = Header::of(&message)?;
        let expected = self.next_from[from];
        if header.number < expected {
            return Ok(()); // it came before
        }
        self.next_from[from] = header.number.saturating_add(1);
        if header.number != expected {
            let number = header.number;
            return Err(Error::invalid(format!(
                "its number is {number} instead of {expected}: the engine has lost a message"
            )));
        }
        match header.kind {
            Kind::Exchange => {
                self.communication.arrive(|inbox| {
                    inbox.exchanges.insert((from, header.id), message);
                });
            }
            Kind::Ended => {
                self.heartbeat.iter_mut().for_each(|heartbeat| heartbeat.ended(from));
                self.communication.arrive(|inbox| {
                    inbox.ended.entry(from).or_insert_with(|| ended(from));
                });
                if header.id != 0 {
                    self.lose(from, &ended(from));
                }
            }
            Kind::Answer => {
                let waiting = self.communication.inbox().requests.remove(&header.id);
                // Without one, the request was dropped.
                waiting.into_iter().for_each(|(_, then)| then(Ok(body.to_vec())));
            }
            _ => self.receiver.receive(from, header, body),
        }
        Ok(())
    }

    /// Fails everything that waits for a rank, or will.
    fn lose(&self, rank: usize, error: &Error) {
        let mut inbox = self.communication.inbox();
        inbox.ended.entry(rank).or_insert_with(|| error.clone());
        if inbox.lost.contains_key(&rank) {
            return;
        }
        inbox.lost.insert(rank, error.clone());
        let failed: Vec<Waiting> =
            inbox.requests.extract_if(|_, (to, _)| *to == rank).map(|(_, (_, then))| then).collect();
        drop(inbox);
        self.communication.arrive(|_| {});
        failed.into_iter().for_each(|then| then(Err(error.clone())));
        self.receiver.lost(rank);
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Without this thread, all that wait would wait for ever.
            self.lose_all(&Error::invalid("the communication thread of this rank panicked"));
        }
    }
}

/// Polls between two yields of the processor: about a microsecond with MPI. (`benches/ranks.rs`.)
const POLLS: usize = 8;
/// How long the thread waits for a message if it can be woken.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long it waits if it cannot: the shorter time soon after a message.
const SHORTEST_POLL: Duration = Duration::from_micros(20);
const LONGEST_POLL: Duration = Duration::from_millis(1);

/// How long a program may go on after a rank was lost, for its logs.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Locks a mutex. The data must be valid even if a thread has panicked while it held the lock.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

pub(crate) fn ended(rank: usize) -> Error {
    Error::other(Ended(rank))
}
