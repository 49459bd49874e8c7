//! The ranks of a program.

use crate::Engine;
use crate::exchange::{Round, exchange};
use crate::step::ClusterStep;
use crate::threads::{Ended, Threads};
use dl_core::parts::Wire;
use dl_core::{Data, Differentiable, Error, ErrorClass, Module, Numbers, Result};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// The ranks that a program runs on, as one of them sees it.
///
/// Every rank must do the same steps in the same order, with the same number of parts, weights and
/// settings. What differs is noticed where ranks exchange something, and is an error on all of them.
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
    pub(crate) engine: Arc<dyn Engine>,
    /// The number of exchanges so far. Held during an exchange, because the messages of two could
    /// not be told apart.
    count: Mutex<u64>,
}

impl Cluster {
    /// Runs a program on as many ranks as the environment variable `DL_RANKS` says, 1 by default.
    /// Ends with the result of rank 0.
    ///
    /// ```
    /// let rank = dl_dist::Cluster::run(|cluster| Ok(cluster.rank()))?;
    /// assert_eq!(rank, 0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`run_on`](Cluster::run_on); and if the variable is not a number.
    pub fn run<R: Send>(program: impl Fn(&Cluster) -> Result<R> + Sync) -> Result<R> {
        let ranks = match std::env::var("DL_RANKS") {
            Ok(ranks) => ranks.parse().map_err(|_| Error::invalid(format!("DL_RANKS={ranks}: it must be a number")))?,
            Err(_) => 1,
        };
        Ok(Cluster::run_on(ranks, program)?.swap_remove(0))
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
    /// only that another rank had ended. Also if there are no ranks.
    pub fn run_on<R: Send>(ranks: usize, program: impl Fn(&Cluster) -> Result<R> + Sync) -> Result<Vec<R>> {
        if ranks == 0 {
            return Err(Error::invalid("a program needs at least one rank"));
        }
        let program = &program;
        let run = |engine: Threads| {
            let rank = engine.rank();
            // The engine is dropped at the end, so that ranks which wait for this one end, too.
            let ended = catch_unwind(AssertUnwindSafe(|| program(&Cluster::with(engine))));
            let ended = ended.unwrap_or_else(|payload| Err(panicked(&*payload)));
            ended.map_err(|error| if ranks == 1 { error } else { error.context(format_args!("rank {rank}")) })
        };
        let ended: Vec<Result<R>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                Threads::new(ranks).into_iter().map(|engine| scope.spawn(move || run(engine))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a panic was caught")).collect()
        });
        let is_cause = |error: &Error| error.downcast_ref::<Ended>().is_none();
        let cause = ended.iter().filter_map(|ended| ended.as_ref().err()).find(|error| is_cause(error)).cloned();
        cause.map_or_else(|| ended.into_iter().collect(), Err)
    }

    /// The cluster of the ranks that this engine connects.
    ///
    /// ```
    /// use dl_dist::{Cluster, Engine};
    /// # use dl_core::Result;
    ///
    /// struct Alone;
    ///
    /// impl Engine for Alone {
    ///     // as in the example of `Engine`
    /// #   fn rank(&self) -> usize { 0 }
    /// #   fn size(&self) -> usize { 1 }
    /// #   fn send(&self, _: usize, _: Vec<u8>) -> Result<()> { unreachable!() }
    /// #   fn receive(&self, _: usize) -> Result<Vec<u8>> { unreachable!() }
    /// }
    ///
    /// assert_eq!(Cluster::with(Alone).size(), 1);
    /// ```
    pub fn with(engine: impl Engine + 'static) -> Cluster {
        Cluster { engine: Arc::new(engine), count: Mutex::new(0) }
    }

    /// The number of this rank, from 0.
    ///
    /// ```
    /// let ranks = dl_dist::Cluster::run_on(2, |cluster| Ok((cluster.rank(), cluster.size())))?;
    /// assert_eq!(ranks, [(0, 2), (1, 2)]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn rank(&self) -> usize {
        self.engine.rank()
    }

    /// The number of ranks.
    ///
    /// ```
    /// assert_eq!(dl_dist::Cluster::run_on(2, |cluster| Ok(cluster.size()))?, [2, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn size(&self) -> usize {
        self.engine.size()
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
    /// called once, before training.
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
        let mine: Vec<Stored> =
            entries.map(|entry| (entry.path().to_owned(), entry.shape(), entry.numbers())).collect();
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
        Ok(Exchanges { engine: &*self.engine, count })
    }
}

/// The exchanges of one step.
pub(crate) struct Exchanges<'a> {
    engine: &'a dyn Engine,
    count: MutexGuard<'a, u64>,
}

impl Exchanges<'_> {
    pub(crate) fn round<V: Wire>(&mut self, round: Round, mine: Result<V>) -> Result<Vec<V>> {
        *self.count += 1;
        exchange(self.engine, round, *self.count, mine)
    }

    /// The number of the next exchange, which the caller makes.
    pub(crate) fn next(&mut self) -> u64 {
        *self.count += 1;
        *self.count
    }
}

/// The error of a panic on a rank.
fn panicked(payload: &(dyn std::any::Any + Send)) -> Error {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(a payload that is not text)");
    let mut data = Error::invalid(format!("panicked: {text}")).data();
    data.class = ErrorClass::Panic;
    data.into_error()
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}
