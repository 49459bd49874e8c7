//! The training loop.

mod across;
mod history;

use crate::callback::Callback;
use crate::checkpoint::Checkpoint;
use crate::checkpoints::{Checkpoints, Latest};
use crate::interrupt::Interrupt;
use crate::record::Record;
use crate::saved::Restore;
use across::Together;
use dl_core::parts::{Ranks, part_seed};
use dl_core::record::Recorder;
use dl_core::{Data, Differentiable, Do, Error, Layer, Module, Optimizer, Parts, Result, Seed};
use dl_optim::OptimizerExt;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A training loop, equivalent to a hand-written one.
///
/// ```
/// use dl_core::{Differentiable, Layer, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::Trainer;
///
/// fn loss(slope: &Weight<f64>, (x, y): (f64, f64)) -> Layer<f64> {
///     (slope * x - y).square()
/// }
/// // returns an iterator of batches for each epoch, such as `|epoch| loader.epoch(epoch)`
/// let batches = |_: u64| Ok([(1.0, 2.0), (2.0, 4.0)].map(Ok));
///
/// let (slope, sgd) = (Weight::new(0.0), Sgd::new(0.05).momentum(0.5));
/// let outcome = Trainer::new(&sgd, 20).run(batches, |batch| loss(&slope, batch))?;
///
/// // a hand-written loop gives the same bits
/// let (by_hand, sgd) = (Weight::new(0.0), Sgd::new(0.05).momentum(0.5));
/// let mut step = 0;
/// for epoch in 0..20 {
///     let (mut sum, mut count) = (0.0, 0.0);
///     for batch in batches(epoch)? {
///         sum += loss(&by_hand, batch?).train(&sgd).seed(step).wait()?;
///         (step, count) = (step + 1, count + 1.0);
///     }
///     assert_eq!(outcome.epochs[epoch as usize].get("loss"), Some(sum / count));
/// }
/// assert_eq!(slope.value().to_bits(), by_hand.value().to_bits());
/// # Result::Ok(())
/// ```
///
/// Everything else is optional: a [`validate`](Trainer::validate) function,
/// [`callback`](Trainer::callback)s such as progress, logs and early stopping,
/// [`checkpoints`](Trainer::checkpoints) from which the run resumes, an
/// [`interrupt`](Trainer::interrupt), and an error for values that are [not
/// finite](Trainer::refuse_non_finite). None of them changes the weights by a bit, except early
/// stopping that [restores](crate::EarlyStopping::restoring) the best weights.
#[must_use = "nothing happens before `run`"]
pub struct Trainer<'a, O> {
    optimizer: O,
    epochs: u64,
    seed: u64,
    /// The position of the random stream at the start of the run, so that random draws do not
    /// depend on the number of steps that the program has taken before.
    position: u64,
    refuse_non_finite: bool,
    /// The number of batches of a step.
    parts: u64,
    together: Together<'a>,
    validate: Option<Box<Validate<'a>>>,
    callbacks: Vec<Box<dyn Callback + 'a>>,
    target: Option<CheckpointTarget<'a>>,
    save_interval: Option<u64>,
    interrupt: Option<Interrupt>,
    recorder: Option<Recorder>,
}

type Validate<'a> = dyn FnMut(Record) -> Result<Record> + 'a;

/// The folder for checkpoints, and the module to save.
struct CheckpointTarget<'a> {
    checkpoints: Checkpoints,
    module: &'a dyn Module,
}

/// The reason for the end of a run.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Interrupt, Stopped, Trainer};
/// let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::new());
/// interrupt.request();
/// let trainer = Trainer::new(&Sgd::new(0.25), 3).interrupt(&interrupt);
/// assert_eq!(trainer.run(|_| Ok([Ok(())]), |()| &w * &w)?.stopped, Stopped::Interrupted);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// All epochs are finished.
    Finished,
    /// A callback ended the run.
    Early,
    /// The run was [interrupted](Interrupt).
    Interrupted,
}

/// The result of a run.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Outcome, Stopped, Trainer};
/// let w = Weight::new(1.0_f64);
/// let Outcome { stopped, steps, epochs, .. } =
///     Trainer::new(&Sgd::new(0.25), 3).run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
/// assert_eq!((stopped, steps, epochs.len()), (Stopped::Finished, 6, 3));
/// assert!(epochs[2].get("loss") < epochs[0].get("loss"));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The reason for the end.
    pub stopped: Stopped,
    /// The number of steps taken, including those before a checkpoint.
    pub steps: u64,
    /// The records of all finished epochs, including those before a checkpoint.
    pub epochs: Vec<Record>,
    /// The errors of newer checkpoints that were skipped on resume because they could not be read.
    pub skipped: Vec<Error>,
}

/// The position of a run.
///
/// ```
/// use dl_core::{Differentiable, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Callback, Place, Trainer};
///
/// #[derive(Default)]
/// struct EpochStarts(Vec<(u64, u64)>);
///
/// impl Callback for EpochStarts {
///     fn begin(&mut self, at: &Place) -> Result<()> {
///         self.0.push((at.epoch, at.step));
///         Ok(())
///     }
/// }
///
/// let (w, mut starts) = (Weight::new(1.0_f64), EpochStarts::default());
/// Trainer::new(&Sgd::new(0.1), 2).callback(&mut starts).run(|_| Ok([Ok(()), Ok(()), Ok(())]), |()| &w * &w)?;
/// assert_eq!(starts.0, [(0, 0), (1, 3)]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Place {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The total number of epochs.
    pub epochs: u64,
    /// The number of batches of this epoch that have been trained on.
    pub batch: u64,
    /// The number of batches in this epoch, if known.
    pub batches: Option<u64>,
    /// The number of steps taken.
    pub step: u64,
    /// The sum of the losses of this epoch.
    sum: f64,
    /// Whether a callback has ended the run.
    ended: bool,
    history: Vec<Record>,
    skipped: Vec<Error>,
}

impl<'a, O: Optimizer + Clone + 'static> Trainer<'a, O> {
    /// A training loop of `epochs` epochs with this optimizer.
    pub fn new(optimizer: &O, epochs: u64) -> Self {
        Trainer {
            optimizer: optimizer.clone(),
            epochs,
            seed: 0,
            position: 0,
            refuse_non_finite: false,
            parts: 1,
            together: Together::default(),
            validate: None,
            callbacks: Vec::new(),
            target: None,
            save_interval: None,
            interrupt: None,
            recorder: None,
        }
    }

    /// Sets the seed of random operations; 0 by default. Step `n` uses the
    /// [seed](dl_core::Do::seed) `(seed << 32) + n`.
    ///
    /// ```
    /// let trainer = dl_train::Trainer::new(&dl_optim::Sgd::new(0.1), 10).seed(7);
    /// ```
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = u64::from(seed) << 32;
        self
    }

    /// Adds a function that returns named numbers after each epoch, such as a validation loss. They
    /// are added to the record of the epoch.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// use dl_train::Trainer;
    /// let w = Weight::new(1.0_f64);
    /// let trainer = Trainer::new(&Sgd::new(0.25), 2).validate(|| Ok([("value", w.value()), ("loss of 3", 9.0)]));
    /// let outcome = trainer.run(|_| Ok([Ok(())]), |()| &w * &w)?;
    /// assert_eq!(outcome.epochs[1].to_string(), "loss 0.2500  value 0.2500  loss of 3 9.0000");
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn validate<N, X, V>(mut self, mut validate: impl FnMut() -> Result<V> + 'a) -> Self
    where
        N: Into<String>,
        X: Into<f64>,
        V: IntoIterator<Item = (N, X)>,
    {
        let mut before = self.validate.take();
        self.validate = Some(Box::new(move |record| {
            let record = before.iter_mut().try_fold(record, |record, before| before(record))?;
            validate()?.into_iter().try_fold(record, |record, (name, value)| record.with(name, value.into()))
        }));
        self
    }

    /// Adds a [`Callback`]. Callbacks are called in the order in which they were added. Pass
    /// `&mut callback` to inspect it after the run.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// use dl_train::{EarlyStopping, Trainer};
    /// let (w, mut stopping) = (Weight::new(1.0_f64), EarlyStopping::on("loss").patience(2));
    /// let outcome = Trainer::new(&Sgd::new(0.0), 100).callback(&mut stopping).run(|_| Ok([Ok(())]), |()| &w * &w)?;
    /// assert_eq!((outcome.epochs.len(), stopping.best()), (3, Some(1.0))); // no improvement
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn callback(mut self, callback: impl Callback + 'a) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    /// Resumes from the latest checkpoint in this folder, if there is one. Saves a checkpoint after
    /// each epoch and when the run is interrupted.
    ///
    /// `module` must contain all weights and buffers that the run changes. The optimizer state, the
    /// position of the run and the state of the callbacks are saved as well. The batches of an
    /// epoch must depend on the number of the epoch only. A resumed run is then bit-identical to an
    /// uninterrupted one, including random layers such as dropout, provided that they are built by
    /// the loss function, or before the run in the same order each time.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Adam;
    /// use dl_train::{Checkpoints, Trainer};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let folder = folder.path().join("run");
    /// let run = |epochs| {
    ///     let (net, adam) = ([Weight::new(3.0_f64)], Adam::new(0.1));
    ///     let trainer = Trainer::new(&adam, epochs).checkpoints(&Checkpoints::in_folder(&folder), &net);
    ///     let outcome = trainer.run(|epoch| Ok([Ok(epoch as f64)]), |x| (&net[0] - x).square())?;
    ///     dl_core::Result::Ok((outcome.epochs.len(), net[0].value()))
    /// };
    /// run(2)?; // the next run resumes from here
    /// let (epochs, resumed) = run(5)?;
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// assert_eq!((epochs, resumed), run(5)?);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn checkpoints(mut self, checkpoints: &Checkpoints, module: &'a dyn Module) -> Self {
        self.target = Some(CheckpointTarget { checkpoints: checkpoints.clone(), module });
        self
    }

    /// Also saves a checkpoint every `steps` steps; must be at least 1. A run that resumes within
    /// an epoch skips the batches before the checkpoint.
    ///
    /// ```
    /// use dl_train::{Checkpoints, Trainer};
    /// let (net, sgd) = (dl_core::Weight::new(1.0_f64), dl_optim::Sgd::new(0.1));
    /// let trainer = Trainer::new(&sgd, 10).checkpoints(&Checkpoints::in_folder("run"), &net).every(1000);
    /// ```
    pub fn every(mut self, steps: u64) -> Self {
        self.save_interval = Some(steps);
        self
    }

    /// Stops the run after the step during which the request is made, and saves a checkpoint.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// use dl_train::{Interrupt, Trainer};
    /// let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::new());
    /// let trainer = Trainer::new(&Sgd::new(0.1), 1000).interrupt(&interrupt);
    /// let stop = interrupt.clone(); // for another thread or a signal handler
    /// let outcome = trainer.run(|_| Ok([Ok(())]), |()| {
    ///     stop.request();
    ///     &w * &w
    /// })?;
    /// assert_eq!(outcome.steps, 1);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn interrupt(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Records all steps with [`recorded`](dl_core::Do::recorded). Recordings accumulate until they
    /// are taken, for instance by a callback.
    ///
    /// ```
    /// use dl_core::record::Recorder;
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// use dl_train::Trainer;
    /// let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
    /// Trainer::new(&Sgd::new(0.25), 3).recorder(&recorder).run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
    /// assert_eq!(recorder.take().passes.len(), 6);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn recorder(mut self, recorder: &Recorder) -> Self {
        self.recorder = Some(recorder.clone());
        self
    }

    /// Refuses a step with a loss or delta that is not finite. The run then ends with an error that
    /// names the first operation with a value or derivative that is not finite, and its source
    /// location. The refused step changes no weight. The overhead is one check of the deltas per
    /// step.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// use dl_train::Trainer;
    /// let w = Weight::new(2.0_f64);
    /// let trainer = Trainer::new(&Sgd::new(1.0), 9).refuse_non_finite();
    /// let error = trainer.run(|_| Ok([Ok(())]), |()| w.ln() * 3.0).unwrap_err();
    /// assert!(error.is_not_finite());
    /// assert!(error.to_string().starts_with("epoch 2, step 2: the step was refused: ln: its value has NaN in it"), "{error}");
    /// ```
    pub fn refuse_non_finite(mut self) -> Self {
        self.refuse_non_finite = true;
        self
    }

    /// Takes one step on the mean of every `parts` batches, with the memory for one: see
    /// [`Parts`]. The last step of an epoch may have fewer. The number must be at least 1, and that
    /// of the run before the checkpoint.
    ///
    /// ```
    /// use dl_core::Weight;
    /// use dl_optim::Sgd;
    /// use dl_train::Trainer;
    /// let w = Weight::new(1.0_f64);
    /// let batches = |_| Ok([1.0, 3.0, 5.0].map(Ok));
    /// let outcome = Trainer::new(&Sgd::new(0.25), 1).parts(2).run(batches, |x: f64| x * &w)?;
    /// assert_eq!((outcome.steps, w.value()), (2, 1.0 - 0.25 * 2.0 - 0.25 * 5.0));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn parts(mut self, parts: u64) -> Self {
        self.parts = parts;
        self
    }

    /// Takes each step on all ranks of a `dl::dist::Cluster`, on the mean of `parts` batches. All ranks
    /// make the same `Trainer` and run it with the same batches; each evaluates some of the batches of
    /// a step. The weights have the same bits on any number of ranks, and those of a run with
    /// [`parts`](Trainer::parts) in one process. `module` must have all weights and buffers that the
    /// run changes.
    ///
    /// The run compares the weights of all ranks before its first step. The validation function is
    /// called on all ranks, and rank 0 determines its result. A callback is called on all ranks
    /// unless it is [for the first one](Callback::only_on_first_rank). If one rank is
    /// [interrupted](Trainer::interrupt), all of them stop after the same step. An error on one rank
    /// ends the run on all of them. [Checkpoints](Trainer::checkpoints) are [`Sharded`](crate::Sharded),
    /// and the run can resume on another number of ranks.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Adam;
    /// use dl_train::Trainer;
    /// # let cluster = &dl_core::parts::OneRank;
    /// // in `Cluster::run(|cluster| …)`
    /// let (net, adam) = ([Weight::new(3.0_f64)], Adam::new(0.1));
    /// let trainer = Trainer::new(&adam, 20).across(cluster, 4, &net);
    /// let outcome = trainer.run(|_| Ok((0..10).map(Ok)), |x| (&net[0] * f64::from(x) - 1.0).square())?;
    /// assert_eq!(outcome.steps, 20 * 3); // on 4, 4 and 2 batches
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn across(mut self, ranks: &'a dyn Ranks, parts: u64, module: &'a dyn Module) -> Self {
        self.parts = parts;
        self.together = Together::on(ranks, module);
        self
    }

    /// In a run [on several ranks](Trainer::across), keeps the state of the optimizer for each weight
    /// on one rank only, with the same bits (*ZeRO-1*): see `ClusterStep::shard_state` of `dl::dist`.
    /// To be called after `across`.
    ///
    /// ```
    /// # let cluster = &dl_core::parts::OneRank;
    /// let (net, adam) = ([dl_core::Weight::new(3.0_f64)], dl_optim::Adam::new(0.1));
    /// let trainer = dl_train::Trainer::new(&adam, 20).across(cluster, 4, &net).shard_state();
    /// ```
    pub fn shard_state(mut self) -> Self {
        self.together.shard_state();
        self
    }

    /// Runs the training loop. `batches` returns the batches of an epoch, `loss` the loss of a
    /// batch.
    ///
    /// # Errors
    /// When a batch, a step, the validation, a callback or a checkpoint fails; when an epoch has no
    /// batches; or when a setting is invalid.
    pub fn run<B, I, A>(
        mut self,
        mut batches: impl FnMut(u64) -> Result<I>,
        mut loss: impl FnMut(B) -> Layer<A>,
    ) -> Result<Outcome>
    where
        I: IntoIterator<Item = Result<B>>,
        A: Data + Into<f64>,
    {
        self.position = Seed::positions();
        if !self.together.is_first() {
            self.callbacks.retain(|callback| !callback.only_on_first_rank());
        }
        let mut at = self.start()?;
        let stopped = loop {
            if at.ended {
                break Stopped::Early;
            }
            if at.epoch == at.epochs {
                break Stopped::Finished;
            }
            if self.is_interrupted()? {
                break Stopped::Interrupted;
            }
            let batches = self.together.agree(batches(at.epoch))?;
            if !self.epoch(&mut at, batches, &mut loss)? {
                break Stopped::Interrupted;
            }
        };
        self.together.agree(self.callbacks.iter_mut().try_for_each(|callback| callback.end(stopped)))?;
        Ok(Outcome { stopped, steps: at.step, epochs: at.history, skipped: at.skipped })
    }

    /// Whether a rank has been asked to stop.
    fn is_interrupted(&self) -> Result<bool> {
        self.interrupt.as_ref().map_or(Ok(false), |interrupt| self.together.any(interrupt.is_requested()))
    }

    /// Validates the settings and returns the position where the run starts.
    fn start(&mut self) -> Result<Place> {
        if let Some(every) = self.save_interval.filter(|&every| every == 0 || self.target.is_none()) {
            let message =
                format!("`every({every})`: the number must be at least 1, and `checkpoints` must set a folder");
            return Err(Error::invalid(message));
        }
        if self.parts == 0 {
            return Err(Error::invalid("`parts(0)`: a step needs at least one batch"));
        }
        if let Some(CheckpointTarget { checkpoints, .. }) = &self.target {
            checkpoints.check()?;
        }
        let latest = self.target.as_ref().map_or(Ok(None), |target| self.together.latest(&target.checkpoints))?;
        let restored = self.restored(latest.as_ref());
        let (mut at, restore) = self.together.agree(restored)?;
        restore.map_or(Ok(()), |restore| restore.apply().map(drop))?;
        at.skipped = latest.map_or_else(Vec::new, |latest| latest.skipped);
        at.epochs = self.epochs;
        self.together.compare()?;
        let started = self.callbacks.iter_mut().try_for_each(|callback| callback.start(&at));
        // fail before the first epoch if the state cannot be saved
        let savable = started.and_then(|()| match &self.target {
            Some(CheckpointTarget { checkpoints, module }) => {
                let empty = self.together.sharded(checkpoints).map_or_else(Checkpoint::new, |sharded| sharded.empty());
                let checked = self.add_all(empty, &at, *module).check();
                checked.map_err(|error| error.context("checkpoints of this run"))
            }
            None => Ok(()),
        });
        self.together.agree(savable)?;
        Ok(at)
    }

    /// The position in a checkpoint, and its values, which are not set yet.
    fn restored<'l>(&mut self, latest: Option<&'l Latest>) -> Result<(Place, Option<Restore<'l>>)> {
        let at = match latest {
            Some(latest) => history::read_place(&latest.saved, self.seed, latest.step, self.parts)?,
            None => Place::default(),
        };
        let (epoch, epochs) = (at.epoch, self.epochs);
        if epochs == 0 || epoch > epochs {
            return Err(Error::invalid(format!("a run of {epochs} epochs, of which {epoch} are already finished")));
        }
        if epoch == epochs && at.batch > 0 {
            let batches = at.batch;
            return Err(Error::invalid(format!(
                "a run of {epochs} epochs, of which {epoch} are already finished, as well as {batches} batches of the next one"
            )));
        }
        let (Some(CheckpointTarget { module, .. }), Some(latest)) = (&self.target, latest) else {
            return Ok((at, None));
        };
        self.callbacks.iter_mut().try_for_each(|callback| callback.load(&latest.saved))?;
        let restore = latest.saved.restore().module("net", *module);
        Ok((at, Some(restore.optimizer("optimizer", &self.optimizer, *module).checked()?)))
    }

    /// Runs the rest of an epoch. Returns `false` if it was interrupted.
    fn epoch<B, A: Data + Into<f64>>(
        &mut self,
        at: &mut Place,
        batches: impl IntoIterator<Item = Result<B>>,
        loss: &mut impl FnMut(B) -> Layer<A>,
    ) -> Result<bool> {
        let mut batches = batches.into_iter();
        let begun = self.begin(at, &mut batches);
        self.together.agree(begun)?;
        while let Some(first) = batches.next() {
            let with_position = |error: Error| error.context(format_args!("epoch {}, step {}", at.epoch, at.step));
            let position = self.position.wrapping_add((at.step + 1) << 32);
            let further = batches.by_ref().take(usize::try_from(self.parts - 1).unwrap_or(usize::MAX));
            let parts = self.together.own_parts(iter::once(first).chain(further)).map_err(with_position)?;
            let own = parts.own.into_iter().map(|batch| {
                Seed::continue_at(position); // the layers of a part do not depend on other parts
                batch.map_or_else(|error| Layer::from(Do::<A>::fail(error)), &mut *loss)
            });
            let (of, step) = ((parts.count, parts.first), at.step);
            let losses = Seed::at_position(position, || self.step(own, of, step)).map_err(with_position)?;
            let (count, sum) = (losses.len() as u64, losses.into_iter().sum::<f64>());
            (at.batch, at.step, at.sum) = (at.batch + count, at.step + 1, at.sum + sum);
            let record = Record::new(at.epoch, at.step).with("loss", sum / count as f64)?;
            self.callbacks.iter_mut().try_for_each(|callback| callback.step(&record))?;
            let interrupted = self.is_interrupted()? && at.batches != Some(at.batch);
            if interrupted || self.save_interval.is_some_and(|every| at.step.is_multiple_of(every)) {
                self.save(at)?;
            }
            if interrupted {
                return Ok(false);
            }
        }
        self.end_of_epoch(at)?;
        Ok(true)
    }

    /// Skips the batches before the checkpoint, and calls the callbacks.
    fn begin<B>(&mut self, at: &mut Place, batches: &mut impl Iterator<Item = Result<B>>) -> Result<()> {
        for batch in 0..at.batch {
            let too_few = || {
                Error::invalid(format!(
                    "the checkpoint was saved after {} batches, but the epoch has only {batch}",
                    at.batch
                ))
            };
            batches.next().ok_or_else(too_few)??;
        }
        let left = batches.size_hint();
        at.batches = left.1.filter(|&most| most == left.0).and_then(|left| at.batch.checked_add(left as u64));
        self.callbacks.iter_mut().try_for_each(|callback| callback.begin(at))
    }

    /// Takes one step on the mean of the losses of so many parts, of which this rank has those from
    /// a number on, with a seed derived from the number of the step.
    fn step<A: Data + Into<f64>>(
        &self,
        losses: impl Iterator<Item = Layer<A>>,
        of: (usize, usize),
        step: u64,
    ) -> Result<Vec<f64>> {
        let seed = self.seed.wrapping_add(step);
        if !self.refuse_non_finite {
            return self.train(losses, of, &self.optimizer, seed);
        }
        let (mut parts, refusing) = (Vec::new(), self.optimizer.clone().refuse_non_finite());
        let refused = |loss: Layer<A>| {
            let refused = loss.refuse_non_finite();
            parts.push(loss);
            refused
        };
        self.train(losses.map(refused), of, &refusing, seed).map_err(|error| {
            if !error.is_not_finite() {
                return error;
            }
            // no weight has changed, so the step can be evaluated again to find the operation
            let mut found = (of.1..)
                .zip(&parts)
                .filter_map(|(part, loss)| loss.first_non_finite().seed(part_seed(seed, part)).wait().ok().flatten());
            let found = self.together.agree(found.next().map_or(Ok(()), Err));
            found.err().unwrap_or(error).context("the step was refused")
        })
    }

    fn train<A: Data + Into<f64>, P: Optimizer + Clone + 'static>(
        &self,
        mut losses: impl Iterator<Item = Layer<A>>,
        (count, first): (usize, usize),
        optimizer: &P,
        seed: u64,
    ) -> Result<Vec<f64>> {
        let in_numbers = |losses: Vec<A>| losses.into_iter().map(Into::into).collect::<Vec<f64>>();
        if let Some(across) = self.together.across() {
            // All other ranks wait for this one.
            let parts = catch_unwind(AssertUnwindSafe(|| Parts::mean(losses))).map_err(Error::panic);
            let sums = |parts: Parts<A>| self.with_settings(parts.among(count, first).partial_sums(), seed).wait();
            let computed = parts.and_then(sums).map(|(losses, sums)| (in_numbers(losses), sums));
            return across.step(Arc::new(optimizer.clone()), count, seed, computed);
        }
        if self.parts > 1 {
            return self.with_settings(Parts::mean(losses).train(optimizer), seed).wait().map(in_numbers);
        }
        let loss = losses.next().expect("a step has a batch");
        Ok(in_numbers(vec![self.with_settings(loss.train(optimizer), seed).wait()?]))
    }

    fn with_settings<R: Send + 'static>(&self, run: Do<R>, seed: u64) -> Do<R> {
        match &self.recorder {
            Some(recorder) => run.seed(seed).recorded(recorder),
            None => run.seed(seed),
        }
    }

    /// Validates, calls the callbacks and saves a checkpoint at the end of an epoch.
    fn end_of_epoch(&mut self, at: &mut Place) -> Result<()> {
        if at.batch == 0 {
            return Err(Error::invalid(format!("epoch {} has no batches", at.epoch)));
        }
        let mut record = Record::new(at.epoch, at.step).with("loss", at.sum / at.batch as f64)?;
        if let Some(validate) = &mut self.validate {
            let validated =
                validate(record).map_err(|error| error.context(format_args!("validation of epoch {}", at.epoch)));
            record = self.together.of_first_rank(validated)?;
        }
        let mut ended = Ok(false);
        for callback in &mut self.callbacks {
            ended = ended.and_then(|ended| Ok(ended | callback.epoch(&record)?.is_break()));
        }
        at.ended = self.together.agree_on_any(ended)?;
        at.history.push(record);
        (at.epoch, at.batch, at.sum) = (at.epoch + 1, 0, 0.0);
        self.save(at)
    }

    fn save(&self, at: &Place) -> Result<()> {
        let Some(CheckpointTarget { checkpoints, module }) = &self.target else { return Ok(()) };
        let contents = |checkpoint| self.add_all(checkpoint, at, *module);
        match self.together.sharded(checkpoints) {
            Some(sharded) => sharded.save(at.step, contents).map(drop),
            None => checkpoints.save(at.step, &contents(Checkpoint::new())).map(drop),
        }
    }

    /// Adds the complete state of the run.
    fn add_all(&self, checkpoint: Checkpoint, at: &Place, module: &dyn Module) -> Checkpoint {
        let checkpoint = checkpoint.module("net", module).optimizer("optimizer", &self.optimizer, module);
        let checkpoint = history::add_place(checkpoint, at, self.seed);
        self.callbacks.iter().fold(checkpoint, |checkpoint, callback| callback.save(checkpoint))
    }
}
