//! `Do`: deferred, asynchronous computations. A monad ([`flat_map`](Do::flat_map)) and a parallel
//! applicative ([`zip`](Do::zip), [`join`](Do::join)).
//!
//! ```
//! use dl_core::Do;
//! let six = Do::now(2).zip(Do::now(3)).map(|(a, b)| a * b);
//! assert_eq!(six.wait()?, 6);
//! assert_eq!(six.flat_map(|six| Do::now(six + 1)).wait()?, 7);
//! # dl_core::Result::Ok(())
//! ```

mod run;
mod wait;

pub use run::Run;

use crate::bang::Extractable;
use crate::error::{Error, Result};
use crate::node::{Kept, KeptFuture, Outcome, Shared};
use crate::pass::{self, Counters, Mode, Owner, Purpose, Settings};
use crate::record::Recorder;
use crate::seed::Position;
use crate::snapshot::Snapshot;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use wait::block_on;

/// A deferred computation that ends with a `T` or an [`Error`].
///
/// It is a recipe: nothing happens until it is run, by [`wait`](Do::wait) or by `.await`, and every
/// run is a fresh one. Whatever layers a run evaluates belong to the pass that it runs in, or else
/// to a pass of its own.
///
/// Computations nest on the stack: a chain of a few thousand [`map`](Do::map) or
/// [`flat_map`](Do::flat_map), or as many `predict().await` inside one another, is fine; for longer
/// ones write a loop in [`from_fn`](Do::from_fn), or chain layers, which take no stack.
///
/// Under [`wait`](Do::wait), and on a worker of rayon, a run does its own work if nobody else does.
/// Awaited under another executor it leaves the work to the workers of rayon, so that it does not
/// hold up that executor: do not block all of them until it ends.
///
/// ```
/// use dl_core::{Differentiable, Do, Weight};
/// let w = Weight::new(1.0_f64);
/// let twice: Do<f64> = w.layer().predict().map(|x| 2.0 * x);
/// assert_eq!(twice.wait()?, 2.0);
/// w.set(4.0);
/// assert_eq!(twice.wait()?, 8.0); // run anew
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "nothing is computed until it is run: write `.wait()?`, or `.await?` inside async code"]
pub struct Do<T> {
    recipe: Shared<dyn Recipe<T>>,
    settings: Settings,
}

/// What a [`Do`] does.
pub(crate) trait Recipe<T>: Send + Sync {
    /// Which pass a run belongs to.
    fn belongs(&self) -> Belongs;

    /// Starts anew.
    fn start(&self) -> KeptFuture<Result<T>>;

    /// The same as the body of a layer, where a run belongs to the pass around it.
    fn start_body(&self, outcome: fn(T) -> Outcome) -> KeptFuture<Result<Outcome>>
    where
        T: Send + 'static,
    {
        let future = self.start();
        Kept::future(async move { future.await.map(outcome) })
    }

    /// Runs it as far as it goes without waiting for anything, on a thread that has nothing else to
    /// do: a recipe that may be through by then saves itself a future.
    fn run_at_once(&self, settings: &Settings) -> AtOnce<T> {
        let _ = settings;
        AtOnce::No
    }
}

/// How far a recipe came at once.
pub(crate) enum AtOnce<T> {
    Done(Result<T>),
    /// It has begun, in this pass.
    Begun(Owner),
    /// It has to be run.
    No,
}

/// Calls a function of the user's for every run.
struct FromFn<F> {
    belongs: Belongs,
    start: F,
}

impl<T, F, Fut> Recipe<T> for FromFn<F>
where
    T: Send + 'static,
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T>> + Send + 'static,
{
    fn belongs(&self) -> Belongs {
        self.belongs.clone()
    }

    fn start(&self) -> KeptFuture<Result<T>> {
        Kept::future((self.start)())
    }

    fn start_body(&self, outcome: fn(T) -> Outcome) -> KeptFuture<Result<Outcome>> {
        let future = (self.start)();
        Kept::future(async move { future.await.map(outcome) })
    }
}

/// A computation as the body of a layer. Settings are for runs that start a pass: mostly there is
/// no need of them.
pub(crate) enum Body<T> {
    Around(Shared<dyn Recipe<T>>),
    Other(Box<Do<T>>),
}

impl<T: Send + 'static> Body<T> {
    /// A fresh run.
    pub(crate) fn start(&self, outcome: fn(T) -> Outcome) -> KeptFuture<Result<Outcome>> {
        match self {
            Body::Around(recipe) => recipe.start_body(outcome),
            Body::Other(this) => {
                let run = this.run();
                Kept::future(async move { run.await.map(outcome) })
            }
        }
    }
}

impl<T> Clone for Do<T> {
    fn clone(&self) -> Self {
        Do { recipe: self.recipe.clone(), settings: self.settings.clone() }
    }
}

impl<T> fmt::Debug for Do<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Do(..)")
    }
}

impl<T: Send + 'static> Do<T> {
    pub(crate) fn new(recipe: impl Recipe<T> + 'static) -> Self {
        let settings = Settings { made_at: Position::outside_now(), ..Settings::default() };
        Do { recipe: Shared::recipe(recipe), settings }
    }

    pub(crate) fn starting<F, Fut>(belongs: Belongs, start: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        Do::new(FromFn { belongs, start })
    }

    /// A computation that calls `start` anew for every run.
    ///
    /// ```
    /// let two = dl_core::Do::from_fn(|| async { Ok(2) });
    /// assert_eq!(two.wait()? + two.wait()?, 4);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn from_fn<F, Fut>(start: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        Do::starting(Belongs::Around, start)
    }

    /// The values of several layers, computed in one pass: what they share is evaluated once.
    ///
    /// `layers` is what the bang of `#[differentiable]` takes: a tuple, an array or a `Vec` of
    /// layers and weights, or of such.
    ///
    /// ```
    /// use dl_core::{Differentiable, Do, Weight};
    /// let w = Weight::new(3.0_f64);
    /// let (value, slope) = (&w * &w).value_and_gradient(&w);
    /// assert_eq!(Do::predict((value, slope)).wait()?, (9.0, 6.0));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn predict<X>(layers: X) -> Self
    where
        X: Extractable<Output = T> + Send + Sync + 'static,
    {
        Do::starting(Belongs::Own(Purpose::Predict), move || layers.start())
    }

    /// A computation made from a future, which can run only once: a second run fails, and says so.
    ///
    /// ```
    /// let once = dl_core::Do::from_future(async { Ok(1) });
    /// assert_eq!(once.wait()?, 1);
    /// assert!(once.wait().unwrap_err().is_ran_twice());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn from_future(future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        let future = Mutex::new(Some(future));
        Do::from_fn(move || {
            let future = future.lock().unwrap_or_else(PoisonError::into_inner).take();
            async move {
                match future {
                    Some(future) => future.await,
                    None => Err(Error::ran_twice()),
                }
            }
        })
    }

    /// A computation that has its value already.
    ///
    /// ```
    /// assert_eq!(dl_core::Do::now(5).wait()?, 5);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn now(value: T) -> Self
    where
        T: Clone + Sync,
    {
        Do::from_fn(move || std::future::ready(Ok(value.clone())))
    }

    /// A computation that fails.
    ///
    /// ```
    /// use dl_core::{Do, Error};
    /// assert!(Do::<f64>::fail(Error::invalid("no")).wait().is_err());
    /// ```
    pub fn fail(error: Error) -> Self {
        Do::from_fn(move || std::future::ready(Err(error.clone())))
    }

    /// Applies a function to the value.
    ///
    /// ```
    /// assert_eq!(dl_core::Do::now(5).map(|x| x + 1).wait()?, 6);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn map<U: Send + 'static>(&self, f: impl Fn(T) -> U + Send + Sync + 'static) -> Do<U> {
        let (this, f) = (self.clone(), Arc::new(f));
        Do::from_fn(move || {
            let (run, f) = (this.run(), f.clone());
            async move { run.await.map(|value| f(value)) }
        })
    }

    /// Runs this computation, then the one that `f` makes of its value.
    ///
    /// ```
    /// use dl_core::Do;
    /// assert_eq!(Do::now(5).flat_map(|x| Do::now(x * 2)).wait()?, 10);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn flat_map<U: Send + 'static>(&self, f: impl Fn(T) -> Do<U> + Send + Sync + 'static) -> Do<U> {
        let (this, f) = (self.clone(), Arc::new(f));
        Do::from_fn(move || {
            let (run, f) = (this.run(), f.clone());
            async move { f(run.await?).run().await }
        })
    }

    /// Runs two computations in parallel. If both fail, the error is that of the left one.
    ///
    /// ```
    /// use dl_core::Do;
    /// assert_eq!(Do::now(1).zip(Do::now('a')).wait()?, (1, 'a'));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn zip<U: Send + 'static>(&self, other: Do<U>) -> Do<(T, U)> {
        let this = self.clone();
        Do::from_fn(move || {
            let (left, right) = (this.run(), other.run());
            async move {
                match futures::future::join(left, right).await {
                    (Ok(left), Ok(right)) => Ok((left, right)),
                    (Err(left), Err(right)) => Err(left.and(&right)),
                    (Err(error), _) | (_, Err(error)) => Err(error),
                }
            }
        })
    }

    /// Runs many computations in parallel. If several fail, the error is that of the leftmost one.
    ///
    /// ```
    /// use dl_core::Do;
    /// assert_eq!(Do::join([Do::now(1), Do::now(2)]).wait()?, vec![1, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn join(all: impl IntoIterator<Item = Do<T>>) -> Do<Vec<T>> {
        let all: Vec<Do<T>> = all.into_iter().collect();
        Do::from_fn(move || {
            let runs = futures::future::join_all(all.iter().map(Do::run));
            async move { Error::all(runs.await) }
        })
    }

    /// The same computation, as the body of a layer.
    pub(crate) fn into_body(self) -> Body<T> {
        match self.recipe.belongs() {
            Belongs::Around => Body::Around(self.recipe),
            _ => Body::Other(Box::new(self)),
        }
    }

    /// Starts a fresh run. Like `.await`, but as a named future.
    ///
    /// ```
    /// let two = dl_core::Do::now(2);
    /// let both = async { Ok(two.run().await? + two.await?) };
    /// assert_eq!(dl_core::Do::from_future(both).wait()?, 4);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn run(&self) -> Run<T> {
        Run::new(self.recipe.clone(), self.settings.clone())
    }

    /// The same computation, whose random numbers are drawn from this seed: see
    /// [`Seed`](crate::Seed).
    ///
    /// Like [`mode`](Do::mode) and [`on`](Do::on), it is a setting of the pass that a run starts,
    /// and of passes inside that one which do not say otherwise; a run that is part of a pass
    /// around it has the settings of that pass.
    ///
    /// ```
    /// use dl_core::{Differentiable, Seed};
    /// let number = Seed::draw();
    /// assert_eq!(number.predict().seed(1).wait()?, number.predict().seed(1).wait()?);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// The same computation, in training or in evaluation: see [`Mode`].
    ///
    /// ```
    /// use dl_core::{Do, Mode};
    /// let mode = Do::from_fn(|| async { Ok(Mode::current()) });
    /// assert_eq!(mode.mode(Mode::Evaluate).wait()?, Some(Mode::Evaluate));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = Some(mode);
        self
    }

    /// The same computation, on the weights as they were when the snapshot was taken: see
    /// [`Snapshot`].
    ///
    /// ```
    /// use dl_core::{Differentiable, Snapshot, Weight};
    /// let w = Weight::new(1.0_f64);
    /// let before = Snapshot::take();
    /// w.set(2.0);
    /// assert_eq!(w.layer().predict().on(&before).wait()?, 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn on(mut self, snapshot: &Snapshot) -> Self {
        self.settings.snapshot = Some(snapshot.clone());
        self
    }

    /// The same computation, whose passes tell this recorder what they do: see
    /// [`record`](crate::record). As [`seed`](Do::seed), it is a setting of the pass that a run
    /// starts, and of passes inside that one: a whole training run can be recorded, too.
    ///
    /// It changes no value.
    ///
    /// ```
    /// use dl_core::record::Recorder;
    /// use dl_core::{Differentiable, Do, Sgd, Weight};
    /// let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
    /// let steps = Do::from_fn(move || {
    ///     let w = w.clone();
    ///     async move {
    ///         for _ in 0..10 {
    ///             (&w * &w).train(&Sgd::new(0.1)).await?;
    ///         }
    ///         Ok(())
    ///     }
    /// });
    /// steps.recorded(&recorder).wait()?;
    /// assert_eq!(recorder.take().passes.len(), 10);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn recorded(mut self, recorder: &Recorder) -> Self {
        self.settings.recorder = Some(recorder.clone());
        self
    }

    /// The same computation, which ends with its value and with what its pass has counted.
    ///
    /// ```
    /// use dl_core::{Differentiable, Sgd, Weight};
    /// let w = Weight::new(3.0_f64);
    /// let (loss, counters) = (&w * &w).train(&Sgd::new(0.1)).counted().wait()?;
    /// assert_eq!((loss, counters.nodes), (9.0, 2));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn counted(&self) -> Do<(T, Counters)> {
        let this = self.clone();
        Do::from_fn(move || {
            let mut run = this.run();
            run.counts = true;
            std::future::poll_fn(move |cx| {
                Pin::new(&mut run).poll(cx).map_ok(|value| (value, run.counters.take().expect("it was told to count")))
            })
        })
    }

    /// Runs the computation and blocks until it ends.
    ///
    /// The thread helps with the work of its own pass meanwhile, and with no other, so it is safe
    /// on any thread: inside a rayon worker, and inside another pass, too. The run never joins a
    /// pass around it: use `.await` for that.
    ///
    /// # Errors
    /// Those of the computation; a panic in it is one of them.
    pub fn wait(&self) -> Result<T> {
        let inherited = pass::with_current(|around| Some(around?.inherited(self.settings.clone())));
        let settings = inherited.as_ref().unwrap_or(&self.settings);
        pass::outside(|| match self.recipe.run_at_once(settings) {
            AtOnce::Done(result) => result,
            AtOnce::Begun(pass) => block_on(Run::going_on(self.recipe.clone(), pass)),
            AtOnce::No => block_on(Run::new(self.recipe.clone(), settings.clone())),
        })
    }
}

impl<T: Send + 'static> IntoFuture for Do<T> {
    type Output = Result<T>;
    type IntoFuture = Run<T>;

    fn into_future(self) -> Run<T> {
        self.run()
    }
}

/// Which pass a run belongs to.
#[derive(Clone)]
pub(crate) enum Belongs {
    /// To the pass in which it is first polled; outside any, to one of its own.
    Around,
    /// To a new pass of its own.
    Own(Purpose),
    /// To this pass, which it drives.
    To(Owner),
}
