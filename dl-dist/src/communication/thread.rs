//! The communication thread of a rank: it owns the engine, sends what other threads have queued,
//! and delivers what arrives.

use super::{Communication, Waiting, ended, lock};
use crate::Engine;
use crate::heartbeat::{Heartbeat, Lost};
use crate::message::{Header, Kind, unsealed};
use dl_core::parallel::backoff::{self, IdleTimeout};
use dl_core::{Error, Result, buffers};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Takes the requests of other ranks, on the communication thread.
pub(crate) trait Receiver: Send + Sync {
    /// Takes a request. It must not block.
    fn receive(&self, from: usize, header: Header, body: &[u8]);

    /// All calls of a rank that has ended are released.
    fn lost(&self, rank: usize);
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
    /// That of the engine; and if the system cannot start a thread.
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
            let mut all = Loop::new(communication, &receiver, &engine);
            if catch_unwind(AssertUnwindSafe(|| all.run(&mut engine))).is_err() {
                all.fail(&mut engine);
            }
        };
        let handle = start_thread("dl-rank".to_owned(), run)?;
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
    /// Whether a message was delivered since the processor was last yielded.
    has_delivered: bool,
}

impl<'a> Loop<'a> {
    fn new(communication: Arc<Communication>, receiver: &'a dyn Receiver, engine: &dyn Engine) -> Self {
        let (rank, size) = (communication.rank, communication.size());
        let heartbeat = engine.silence().map(|silence| Heartbeat::new(rank, size, silence, Instant::now()));
        let (next_to, next_from) = (vec![0; size], vec![0; size]);
        let (last, timeout) = (Instant::now(), IdleTimeout::default());
        Loop { communication, receiver, next_to, next_from, heartbeat, sent: 0, last, timeout, has_delivered: false }
    }

    fn run(&mut self, engine: &mut dyn Engine) {
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
                        self.has_delivered = true;
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
            // The thread that has got a message may need this processor.
            if !std::mem::take(&mut self.has_delivered) && backoff::spin(POLLS, &mut is_ready) {
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

    /// After a panic of this thread: without it, all that wait for this rank would wait for ever.
    fn fail(&mut self, engine: &mut dyn Engine) {
        // What is queued is not sent: this rank gives up all that waits for it.
        let say_so = || {
            for to in (0..self.next_to.len()).filter(|&to| to != self.communication.rank) {
                let mut message = unsealed(&[], 0);
                Header { kind: Kind::Ended, id: 1, number: self.next_to[to] }.seal(&mut message);
                // A rank that cannot be reached hears nothing more.
                let _ = engine.send(to, message);
            }
        };
        let _ = catch_unwind(AssertUnwindSafe(say_so));
        self.lose_all(&Error::invalid("the communication thread of this rank panicked"));
        engine.end(true);
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
                self.communication.exchanges[from].store(header.id, Ordering::Relaxed);
                self.communication.arrive(|inbox| {
                    inbox.exchanges.insert((from, header.id), message);
                });
                return Ok(());
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
        buffers::give_back(message);
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

/// Starts a thread.
///
/// # Errors
/// If the system cannot: it limits threads and memory.
pub(crate) fn start_thread(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let started = std::thread::Builder::new().name(name.clone()).spawn(run);
    started.map_err(|error| Error::other(error).context(format_args!("the system cannot start the thread `{name}`")))
}

/// Polls between two yields of the processor. (`benches/ranks.rs`.)
const POLLS: usize = 2;
/// How long the thread waits for a message if it can be woken.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long it waits if it cannot: the shorter time soon after a message.
const SHORTEST_POLL: Duration = Duration::from_micros(20);
const LONGEST_POLL: Duration = Duration::from_millis(1);

/// How long a program may go on after a rank was lost, for its logs.
const LAST_WORDS: Duration = Duration::from_millis(500);
