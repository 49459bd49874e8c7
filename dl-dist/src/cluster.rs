//! The ranks of a program.

use crate::Engine;
use crate::communication::{Communication, Messages, Thread, is_ended, lock};
use crate::elsewhere::Elsewhere;
use crate::exchange::{Posted, Received, Round, exchange};
#[cfg(has_mpi)]
use crate::function::functions;
use crate::launch::{Launch, launch};
#[cfg(has_mpi)]
use crate::program::Process;
use crate::server::Server;
use crate::step::ClusterStep;
use crate::threads::Threads;
use dl_core::parts::Wire;
use dl_core::{Data, Differentiable, Entry, Error, Module, Numbers, Result, Weight};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;

/// The ranks that a program runs on, as one of them sees it.
///
/// Every rank must do the same steps in the same order, with the same number of parts, weights and
/// optimizer. Another order, number of parts, seed, kind of optimizer, learning rate or clipping is an
/// error on all ranks in the next step. To compare the rules, each rank also applies its rule, and
/// that of each weight which has its own, to two numbers that are those of no weight. Rules of single
/// weights are not compared in steps with [`shard_state`](ClusterStep::shard_state), where each is
/// used on one rank. Another value of a weight is an error in the next
/// [`compare`](Cluster::compare).
///
/// ```
/// use dl_core::Weight;
/// use dl_dist::Cluster;
/// use dl_optim::Sgd;
/// let weights = Cluster::run_on(2, |cluster| {
///     let w = Weight::new(1.0_f64);
///     cluster.compare(&w)?;
///     cluster.sum(4, |part| &w * part as f64).train(&w, &Sgd::new(0.5))?;
///     Ok(w.value())
/// })?;
/// assert_eq!(weights, [-2.0, -2.0]);
/// # dl_core::Result::Ok(())
/// ```
pub struct Cluster {
    /// `None` if there is one rank.
    pub(crate) ranks: Option<Ranks>,
    /// The number of exchanges so far. Held during an exchange, because the messages of two could
    /// not be told apart.
    count: Mutex<u64>,
}

/// The connection to the other ranks, and what this rank does for them.
pub(crate) struct Ranks {
    thread: Mutex<Thread>,
    pub(crate) communication: Arc<Communication>,
    pub(crate) server: Server,
    /// How many modules have been placed on all ranks, and the weights that stand for those on
    /// other ranks.
    pub(crate) placed: Mutex<(u64, Vec<Weight<Elsewhere>>)>,
}

impl Cluster {
    /// Runs a program on all ranks. Under `mpirun` or `srun`, with the feature `mpi`, each process is
    /// a rank, and gets the result of its own. Otherwise the ranks are threads of this process, as
    /// many as the environment variable `DL_RANKS` says, 1 by default, and the result is that of
    /// rank 0.
    ///
    /// Processes compare the versions of their programs first. One that is silent for the seconds in
    /// `DL_SILENCE`, 2.5 by default, is lost: see [`is_lost`](crate::is_lost).
    ///
    /// ```
    /// let rank = dl_dist::Cluster::run(|cluster| Ok(cluster.rank()))?;
    /// assert_eq!(rank, 0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`run_on`](Cluster::run_on); if a variable is not a number; if a launcher has started this
    /// process beside others and the library was built without MPI; if the processes differ; if a
    /// rank is lost.
    pub fn run<R: Send>(program: impl Fn(&Cluster) -> Result<R> + Sync) -> Result<R> {
        match launch(|name| std::env::var(name).ok())? {
            Launch::Threads(ranks) => Ok(Cluster::run_on(ranks, program)?.swap_remove(0)),
            #[cfg(has_mpi)]
            Launch::Mpi => {
                let silence = crate::launch::silence(|name| std::env::var(name).ok())?;
                Cluster::on(move || crate::mpi::Mpi::start(silence))?.run_rank(|cluster| {
                    cluster.compare_programs()?;
                    program(cluster)
                })
            }
            #[cfg(not(has_mpi))]
            Launch::Mpi => unreachable!("it is an error without MPI"),
        }
    }

    /// Runs a program on so many ranks, which are threads of this process. Ends with the results of
    /// all of them.
    ///
    /// ```
    /// let ranks = dl_dist::Cluster::run_on(3, |cluster| Ok(cluster.rank()))?;
    /// assert_eq!(ranks, [0, 1, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If the program fails or panics on a rank: the error of the lowest rank whose failure was not
    /// only that another rank had ended. Also if there are no ranks; and if the system cannot start two
    /// threads for each rank: then the program begins on none.
    pub fn run_on<R: Send>(ranks: usize, program: impl Fn(&Cluster) -> Result<R> + Sync) -> Result<Vec<R>> {
        if ranks == 0 {
            return Err(Error::invalid("a program needs at least one rank"));
        }
        let program = &program;
        let ended: Vec<Result<R>> = thread::scope(|scope| {
            // Each waits for its cluster: a rank whose program has begun waits for all others.
            let (mut starts, mut threads) = (Vec::new(), Vec::new());
            for rank in 0..ranks {
                let (start, cluster) = channel::<Cluster>();
                // Without a cluster, the program does not begin.
                let run = move || cluster.recv().ok().map(|cluster| cluster.run_rank(program));
                let thread = thread::Builder::new().spawn_scoped(scope, run);
                threads.push(thread.map_err(|error| cannot_start(rank, ranks, &Error::other(error)))?);
                starts.push(start);
            }
            let clusters = Cluster::of_threads(ranks)?;
            starts.iter().zip(clusters).for_each(|(start, cluster)| start.send(cluster).expect("the thread waits"));
            let ended = threads.into_iter().map(|thread| thread.join().expect("a panic was caught"));
            Ok(ended.map(|ended| ended.expect("its program has begun")).collect())
        })?;
        let is_cause = |error: &Error| !is_ended(error);
        let cause = ended.iter().filter_map(|ended| ended.as_ref().err()).find(|error| is_cause(error)).cloned();
        cause.map_or_else(|| ended.into_iter().collect(), Err)
    }

    /// The cluster of the ranks that this engine connects.
    ///
    /// ```
    /// use dl_dist::{Cluster, Engine};
    /// # use dl_core::Result;
    /// # use std::time::Duration;
    ///
    /// struct Alone;
    ///
    /// impl Engine for Alone {
    ///     // as in the example of `Engine`
    /// #   fn rank(&self) -> usize { 0 }
    /// #   fn size(&self) -> usize { 1 }
    /// #   fn send(&mut self, _: usize, _: Vec<u8>) -> Result<()> { unreachable!() }
    /// #   fn receive(&mut self, _: Duration) -> Result<Option<(usize, Vec<u8>)>> { Ok(None) }
    /// }
    ///
    /// assert_eq!(Cluster::with(Alone).size(), 1);
    /// ```
    ///
    /// A cluster that is dropped waits until the programs of all ranks have ended, because they may
    /// call functions of this one. If it is dropped by a panic, the others get errors.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn with(engine: impl Engine + 'static) -> Cluster {
        Cluster::of(engine).unwrap_or_else(Error::raise)
    }

    fn of(engine: impl Engine + 'static) -> Result<Cluster> {
        match engine.size() {
            1 => Ok(Cluster { ranks: None, count: Mutex::new(0) }),
            _ => Cluster::on(|| Ok(engine)),
        }
    }

    /// Those of ranks that are threads.
    fn of_threads(ranks: usize) -> Result<Vec<Cluster>> {
        let mut clusters = Vec::new();
        for (rank, engine) in Threads::new(ranks).into_iter().enumerate() {
            match Cluster::of(engine) {
                Ok(cluster) => clusters.push(cluster),
                Err(error) => {
                    // Not dropped: each would wait for the others.
                    clusters.iter().for_each(|cluster: &Cluster| cluster.end(true));
                    return Err(cannot_start(rank, ranks, &error));
                }
            }
        }
        Ok(clusters)
    }

    /// The cluster of the ranks that an engine connects, which is made by the communication thread.
    fn on<E: Engine + 'static>(engine: impl FnOnce() -> Result<E> + Send + 'static) -> Result<Cluster> {
        let (thread, server) = Thread::start(engine, Server::new)?;
        let communication = thread.communication().clone();
        let ranks = Ranks { thread: Mutex::new(thread), communication, server, placed: Mutex::default() };
        Ok(Cluster { ranks: Some(ranks), count: Mutex::new(0) })
    }

    /// Runs the program of this rank.
    fn run_rank<R>(self, program: impl FnOnce(&Cluster) -> Result<R>) -> Result<R> {
        let ended = catch_unwind(AssertUnwindSafe(|| program(&self)));
        let ended = ended.unwrap_or_else(|payload| Err(Error::panic(payload)));
        // Ranks that wait for this one end, too.
        self.end(ended.is_err());
        let (rank, size) = (self.rank(), self.size());
        ended.map_err(|error| if size == 1 { error } else { error.of_rank(rank) })
    }

    /// Compares the programs of the processes of a job, and learns their names.
    #[cfg(has_mpi)]
    fn compare_programs(&self) -> Result<()> {
        let Some(communication) = self.communication() else { return Ok(()) };
        let this = Process::this(communication.host(), functions()).map(|process| process.to_sent());
        let all = self.exchanges()?.round(Round::Programs, this)?;
        let all: Vec<Process> = all.into_iter().map(Process::of_sent).collect();
        communication.set_processes(all.iter().map(|process| process.name.clone()).collect());
        crate::program::compare(&all)
    }

    /// Ends the communication of this rank.
    fn end(&self, failed: bool) {
        if let Some(ranks) = &self.ranks {
            lock(&ranks.thread).end(failed);
            ranks.server.end();
        }
    }

    pub(crate) fn communication(&self) -> Option<&Arc<Communication>> {
        self.ranks.as_ref().map(|ranks| &ranks.communication)
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        self.ranks.as_ref().map(|ranks| &ranks.server)
    }

    /// The weights that stand for modules on other ranks.
    pub(crate) fn stand_ins(&self) -> Vec<Weight<Elsewhere>> {
        self.ranks.as_ref().map_or_else(Vec::new, |ranks| lock(&ranks.placed).1.clone())
    }

    /// How many modules have been placed.
    pub(crate) fn modules(&self) -> u64 {
        self.ranks.as_ref().map_or(0, |ranks| lock(&ranks.placed).0)
    }

    /// How many messages this rank has sent to another one.
    ///
    /// ```
    /// use dl_core::Weight;
    /// let sent = dl_dist::Cluster::run_on(2, |cluster| {
    ///     cluster.compare(&Weight::new(1.0_f64))?;
    ///     cluster.compare(&Weight::new(2.0_f64))?;
    ///     Ok(cluster.sent_to(0))
    /// })?;
    /// assert_eq!((sent[1].calls, sent[1].exchanges), (0, 2));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn sent_to(&self, rank: usize) -> Messages {
        self.communication().map_or_else(Messages::default, |communication| communication.sent_to(rank))
    }

    /// How many calls of other ranks this rank keeps for a backward. It is 0 when all passes that
    /// have called modules of this rank have ended.
    ///
    /// ```
    /// assert_eq!(dl_dist::Cluster::run_on(2, |cluster| Ok(cluster.open_calls()))?, [0, 0]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn open_calls(&self) -> usize {
        self.server().map_or(0, Server::open_calls)
    }

    /// The number of this rank, from 0.
    ///
    /// ```
    /// let ranks = dl_dist::Cluster::run_on(2, |cluster| Ok((cluster.rank(), cluster.size())))?;
    /// assert_eq!(ranks, [(0, 2), (1, 2)]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn rank(&self) -> usize {
        self.communication().map_or(0, |communication| communication.rank())
    }

    /// The number of ranks.
    ///
    /// ```
    /// assert_eq!(dl_dist::Cluster::run_on(2, |cluster| Ok(cluster.size()))?, [2, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn size(&self) -> usize {
        self.communication().map_or(1, |communication| communication.size())
    }

    /// The parts, of so many, that this rank evaluates.
    ///
    /// ```
    /// let parts = dl_dist::Cluster::run_on(3, |cluster| Ok(cluster.own_parts(8)))?;
    /// assert_eq!(parts, [0..2, 2..5, 5..8]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn own_parts(&self, parts: usize) -> Range<usize> {
        let (rank, size) = (self.rank(), self.size());
        parts * rank / size..parts * (rank + 1) / size
    }

    /// A step on the sum of the losses of so many parts. `loss` is called for the parts of this rank
    /// only. See [`Parts`](dl_core::Parts).
    pub fn sum<T, L, F>(&self, parts: usize, loss: F) -> ClusterStep<'_, F>
    where
        T: Data,
        L: Differentiable<Data = T, Delta = T::Delta>,
        F: FnMut(usize) -> L,
    {
        ClusterStep::new(self, parts, loss, false)
    }

    /// A step on the mean of the losses of so many parts. `loss` is called for the parts of this
    /// rank only.
    ///
    /// ```
    /// use dl_core::Weight;
    /// use dl_optim::Sgd;
    /// let weights = dl_dist::Cluster::run_on(2, |cluster| {
    ///     let w = Weight::new(1.0_f64);
    ///     let losses = cluster.mean(4, |part| &w * part as f64).train(&w, &Sgd::new(0.5))?;
    ///     assert_eq!(losses, [0.0, 1.0, 2.0, 3.0]); // those of all ranks
    ///     Ok(w.value())
    /// })?;
    /// assert_eq!(weights, [0.25, 0.25]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn mean<T, L, F>(&self, parts: usize, loss: F) -> ClusterStep<'_, F>
    where
        T: Data,
        L: Differentiable<Data = T, Delta = T::Delta>,
        F: FnMut(usize) -> L,
    {
        ClusterStep::new(self, parts, loss, true)
    }

    /// Compares the weights and buffers of a module on all ranks: paths, shapes and bits. To be
    /// called before training, and now and then in it.
    ///
    /// ```
    /// use dl_core::Weight;
    /// let ended = dl_dist::Cluster::run_on(2, |cluster| cluster.compare(&[Weight::new(cluster.rank() as f64)]));
    /// assert!(ended.unwrap_err().to_string().contains("`0` differs from that of rank 0"));
    /// ```
    ///
    /// # Errors
    /// On all ranks, if one differs from rank 0. It names the rank and the first path.
    pub fn compare<M: Module + ?Sized>(&self, module: &M) -> Result<()> {
        type Stored = (String, Vec<usize>, Numbers);
        let entries = module.entries().into_iter();
        // A module on one rank is not a replica.
        let is_placed =
            |entry: &Entry| entry.rank().is_some() || self.server().is_some_and(|server| server.has_entry(entry.id()));
        let numbers = |entry: &Entry| if is_placed(entry) { Numbers::U8(Vec::new()) } else { entry.numbers() };
        let mine: Vec<Stored> =
            entries.map(|entry| (entry.path().to_owned(), entry.shape(), numbers(&entry))).collect();
        let mut exchanges = self.exchanges()?;
        let all = exchanges.round(Round::Compare, Ok(mine))?;
        for (rank, theirs) in all.iter().enumerate() {
            let first = &all[0];
            let differs = |(mine, theirs): &(&Stored, &Stored)| mine.to_bytes() != theirs.to_bytes();
            let found = first.iter().zip(theirs).find(differs).map(|(_, theirs)| &theirs.0);
            let found = found.or_else(|| {
                let (short, long) = if first.len() < theirs.len() { (first, theirs) } else { (theirs, first) };
                long.get(short.len()).map(|(path, ..)| path)
            });
            if let Some(path) = found {
                return Err(Error::invalid(format!(
                    "the replica on rank {rank}: `{path}` differs from that of rank 0"
                )));
            }
        }
        Ok(())
    }

    /// The right to exchange messages.
    ///
    /// # Errors
    /// If another thread of this rank has it: the order of two steps would differ between ranks.
    pub(crate) fn exchanges(&self) -> Result<Exchanges<'_>> {
        let count = match self.count.try_lock() {
            Ok(count) => count,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::invalid("a cluster takes one step at a time"));
            }
        };
        Ok(Exchanges { ranks: self.ranks.as_ref(), count })
    }
}

/// The error that a rank has no thread.
fn cannot_start(rank: usize, ranks: usize, error: &Error) -> Error {
    error.context(format_args!(
        "rank {rank} of {ranks} cannot be started as a thread: use fewer ranks (`DL_RANKS`), or allow this \
         process more threads and memory"
    ))
}

/// The exchanges of one step.
pub(crate) struct Exchanges<'a> {
    ranks: Option<&'a Ranks>,
    count: MutexGuard<'a, u64>,
}

impl<'a> Exchanges<'a> {
    pub(crate) fn round<V: Wire>(&mut self, round: Round, mine: Result<V>) -> Result<Vec<V>> {
        let all = exchange(self.communication(), round, self.next(), mine);
        self.settle();
        all
    }

    /// Contributes to a round, with numbers after the value for each rank: see [`Posted::new`]. Rounds
    /// must be collected in their order.
    pub(crate) fn post<V: Wire>(
        &mut self,
        round: Round,
        mine: Result<V>,
        room: usize,
        numbers: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Posted<V> {
        Posted::new(self.communication(), round, self.next(), mine, room, numbers)
    }

    pub(crate) fn collect<V: Wire>(&mut self, posted: Posted<V>) -> Result<Vec<Received<V>>> {
        let all = posted.collect(self.communication());
        self.settle();
        all
    }

    fn communication(&self) -> Option<&'a Communication> {
        self.ranks.map(|ranks| &*ranks.communication)
    }

    /// What other ranks did before an exchange is then done on this one.
    fn settle(&self) {
        self.ranks.into_iter().for_each(|ranks| ranks.server.settle());
    }

    /// The number of the next exchange, which the caller makes.
    pub(crate) fn next(&mut self) -> u64 {
        *self.count += 1;
        *self.count
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end(std::thread::panicking());
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}
