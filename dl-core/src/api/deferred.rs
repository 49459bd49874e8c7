//! `Do`: deferred, asynchronous computations. `Do` is a monad ([`flat_map`](Do::flat_map)) and a
//! parallel applicative ([`zip`](Do::zip), [`join`](Do::join)).
//!
//! ```
//! use dl_core::Do;
//! let six = Do::now(2).zip(Do::now(3)).map(|(a, b)| a * b);
//! assert_eq!(six.wait()?, 6);
//! assert_eq!(six.flat_map(|six| Do::now(six + 1)).wait()?, 7);
//! # dl_core::Result::Ok(())
//! ```

use crate::api::extractable::Extractable;
use crate::error::{Error, Result};
use crate::exec::block_on::block_on;
use crate::exec::computation::{Computation, FromFn, PassChoice, SyncRun};
use crate::exec::run::Run;
use crate::exec::snapshot::Snapshot;
use crate::exec::{self, Counters, Mode, Purpose, Settings};
use crate::graph::erased_arc::ErasedArc;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::node::Outcome;
use crate::record::Recorder;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// A deferred computation that ends with a `T` or an [`Error`].
///
/// A `Do` describes a computation: nothing happens until it is run, by [`wait`](Do::wait) or by
/// `.await`, and each run starts anew. The layers that a run evaluates belong to the surrounding
/// pass if there is one, and otherwise to a new pass.
///
/// Nested computations use the stack. A chain of a few thousand [`map`](Do::map) or
/// [`flat_map`](Do::flat_map) calls is fine, as are a few thousand nested `predict().await`. For
/// longer chains write a loop in [`from_fn`](Do::from_fn), or chain layers, which use no stack.
///
/// Under [`wait`](Do::wait), and on a worker of rayon, a run executes the work that no other worker
/// takes. Under another executor it leaves all work to the workers of rayon, so that it does not
/// block that executor. Do not block all workers of rayon until such a run ends.
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
    computation: ErasedArc<dyn Computation<T>>,
    settings: Settings,
}

/// A computation as the body of a layer. The settings of a `Do` apply only to a run that starts a
/// pass, so the common case, which joins the surrounding pass, omits them.
pub(crate) enum Body<T> {
    Joining(ErasedArc<dyn Computation<T>>),
    WithSettings(Box<Do<T>>),
}

impl<T: Send + 'static> Body<T> {
    /// Starts a new run.
    pub(crate) fn start(&self, outcome: fn(T) -> Outcome) -> InlineFuture<Result<Outcome>> {
        match self {
            Body::Joining(computation) => computation.start_body(outcome),
            Body::WithSettings(this) => {
                let run = this.run();
                InlineBox::future(async move { run.await.map(outcome) })
            }
        }
    }
}

impl<T> Clone for Do<T> {
    fn clone(&self) -> Self {
        Do { computation: self.computation.clone(), settings: self.settings.clone() }
    }
}

impl<T> fmt::Debug for Do<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Do(..)")
    }
}

impl<T: Send + 'static> Do<T> {
    pub(crate) fn new(computation: impl Computation<T> + 'static) -> Self {
        Do { computation: ErasedArc::computation(computation), settings: Settings::made_here() }
    }

    pub(crate) fn starting<F, Fut>(pass_choice: PassChoice, start: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        Do::new(FromFn { pass_choice, start })
    }

    /// A computation that calls `start` for each run.
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
        Do::starting(PassChoice::Current, start)
    }

    /// The values of several layers, computed in one pass, in which shared layers are evaluated
    /// once.
    ///
    /// `layers` is any operand of the bang (`!`) of `#[differentiable]`: a tuple, an array or a
    /// `Vec` of layers and weights, or nested ones.
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
        Do::starting(PassChoice::New(Purpose::Predict), move || layers.start())
    }

    /// A computation made from a future. It can run only once: a second run fails with an error.
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

    /// A computation with a value that is already known.
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

    /// Runs this computation, then the one that `f` returns for its value.
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

    /// Runs two computations in parallel. If both fail, the error is the left one's.
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

    /// Runs many computations in parallel. If several fail, the error is the leftmost one's.
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

    /// This computation as the body of a layer.
    pub(crate) fn into_body(self) -> Body<T> {
        match self.computation.pass_choice() {
            PassChoice::Current => Body::Joining(self.computation),
            _ => Body::WithSettings(Box::new(self)),
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
        Run::new(self.computation.clone(), self.settings.clone())
    }

    /// This computation with random numbers drawn from this seed: see [`Seed`](crate::Seed).
    ///
    /// Like [`mode`](Do::mode) and [`on`](Do::on), this is a setting of the pass that a run starts.
    /// Nested passes inherit it unless they set their own. A run that joins a surrounding pass uses
    /// the settings of that pass.
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

    /// This computation in training or in evaluation mode: see [`Mode`].
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

    /// This computation on the weights as they were when the snapshot was taken: see [`Snapshot`].
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

    /// This computation with its passes recorded by this recorder: see [`record`](crate::record).
    /// As with [`seed`](Do::seed), this is a setting of the pass that a run starts, and nested
    /// passes inherit it: a whole training run can be recorded, too.
    ///
    /// Recording changes no value.
    ///
    /// ```
    /// use dl_core::record::Recorder;
    /// use dl_core::{Differentiable, Do, Weight};
    /// use dl_optim::Sgd;
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

    /// This computation, ending with its value and with the counters of its pass.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
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
                Pin::new(&mut run).poll(cx).map_ok(|value| (value, run.counters.take().expect("counting was enabled")))
            })
        })
    }

    /// Runs the computation and blocks until it ends.
    ///
    /// Meanwhile the calling thread executes work of its own pass and of no other, so `wait` is
    /// safe on any thread, inside a rayon worker and inside another pass, too. The run never joins
    /// a surrounding pass: use `.await` for that.
    ///
    /// # Errors
    /// The errors of the computation, including panics in it.
    pub fn wait(&self) -> Result<T> {
        exec::check_instructions()?;
        let inherited = exec::with_current(|around| Some(around?.inherited(self.settings.clone())));
        let settings = inherited.as_ref().unwrap_or(&self.settings);
        exec::outside(|| match self.computation.try_run_sync(settings) {
            SyncRun::Completed(result) => result,
            SyncRun::Started(pass) => block_on(Run::resume(self.computation.clone(), pass)),
            SyncRun::Unsupported => block_on(Run::new(self.computation.clone(), settings.clone())),
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
