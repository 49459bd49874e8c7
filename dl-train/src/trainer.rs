//! The training loop, for those who do not want to write it.

mod history;

use crate::callback::Callback;
use crate::checkpoint::Checkpoint;
use crate::checkpoints::Checkpoints;
use crate::interrupt::Interrupt;
use crate::record::Record;
use dl_core::record::Recorder;
use dl_core::{Data, Differentiable, Do, Error, Layer, Module, Optimizer, Result, Seed};
use dl_optim::OptimizerExt;

/// A training loop, which does what one does by hand.
///
/// ```
/// use dl_core::{Differentiable, Layer, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::Trainer;
///
/// fn loss(slope: &Weight<f64>, (x, y): (f64, f64)) -> Layer<f64> {
///     (slope * x - y).square()
/// }
/// // any iterator of batches for each epoch: `|epoch| loader.epoch(epoch)`, for instance
/// let batches = |_: u64| Ok([(1.0, 2.0), (2.0, 4.0)].map(Ok));
///
/// let (slope, sgd) = (Weight::new(0.0), Sgd::new(0.05).momentum(0.5));
/// let outcome = Trainer::new(&sgd, 20).run(batches, |batch| loss(&slope, batch))?;
///
/// // the same bits
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
/// All else is optional: a [`validate`](Trainer::validate) function,
/// [`callback`](Trainer::callback)s such as progress, logs and early stopping,
/// [`checkpoints`](Trainer::checkpoints) from which the run goes on, an
/// [`interrupt`](Trainer::interrupt), and the refusal of numbers that are [not
/// finite](Trainer::refuse_non_finite). None of it changes a bit of the weights, but for early
/// stopping that is told to put the best ones [back](crate::EarlyStopping::restoring).
#[must_use = "nothing happens before `run`"]
pub struct Trainer<'a, O> {
    optimizer: O,
    epochs: u64,
    seed: u64,
    /// The position at which the run begins: what a step draws does not depend on how many steps
    /// the program has taken.
    position: u64,
    refuses: bool,
    validate: Option<Box<Validate<'a>>>,
    callbacks: Vec<Box<dyn Callback + 'a>>,
    saving: Option<Saving<'a>>,
    every: Option<u64>,
    interrupt: Interrupt,
    recorder: Option<Recorder>,
}

type Validate<'a> = dyn FnMut(Record) -> Result<Record> + 'a;

/// What is saved, and where.
struct Saving<'a> {
    checkpoints: Checkpoints,
    module: &'a dyn Module,
}

/// How a run has ended.
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
    /// After all epochs.
    Finished,
    /// Because a callback said so.
    Early,
    /// Because it was [asked](Interrupt) to.
    Interrupted,
}

/// What a run has come to.
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
    /// How it has ended.
    pub stopped: Stopped,
    /// How many steps have been taken, those before a checkpoint included.
    pub steps: u64,
    /// The records of all epochs that are over, those before a checkpoint included.
    pub epochs: Vec<Record>,
    /// Why newer checkpoints than the one from which it went on were passed over: damaged files,
    /// for instance.
    pub skipped: Vec<Error>,
}

/// Where a run is.
///
/// ```
/// use dl_core::{Differentiable, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Callback, Place, Trainer};
///
/// #[derive(Default)]
/// struct Begun(Vec<(u64, u64)>);
///
/// impl Callback for Begun {
///     fn begin(&mut self, at: &Place) -> Result<()> {
///         self.0.push((at.epoch, at.step));
///         Ok(())
///     }
/// }
///
/// let (w, mut begun) = (Weight::new(1.0_f64), Begun::default());
/// Trainer::new(&Sgd::new(0.1), 2).callback(&mut begun).run(|_| Ok([Ok(()), Ok(()), Ok(())]), |()| &w * &w)?;
/// assert_eq!(begun.0, [(0, 0), (1, 3)]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Place {
    /// The epoch, from 0.
    pub epoch: u64,
    /// How many epochs there are going to be.
    pub epochs: u64,
    /// How many batches of this epoch have been learned from.
    pub batch: u64,
    /// How many batches this epoch has, if that is known.
    pub batches: Option<u64>,
    /// How many steps have been taken.
    pub step: u64,
    /// The sum of the losses of this epoch.
    sum: f64,
    /// Whether a callback has ended the run.
    ended: bool,
    history: Vec<Record>,
    skipped: Vec<Error>,
}

impl<'a, O: Optimizer + Clone + 'static> Trainer<'a, O> {
    /// So many epochs with this optimizer.
    pub fn new(optimizer: &O, epochs: u64) -> Self {
        Trainer {
            optimizer: optimizer.clone(),
            epochs,
            seed: 0,
            position: 0,
            refuses: false,
            validate: None,
            callbacks: Vec::new(),
            saving: None,
            every: None,
            interrupt: Interrupt::new(),
            recorder: None,
        }
    }

    /// The seed of what is random in a step: step number `n` has the [seed](dl_core::Do::seed)
    /// `(seed << 32) + n`. It is 0 if nothing is said.
    ///
    /// ```
    /// let trainer = dl_train::Trainer::new(&dl_optim::Sgd::new(0.1), 10).seed(7);
    /// ```
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = u64::from(seed) << 32;
        self
    }

    /// What is to be known of the net after each epoch, by name: it is added to the record of the
    /// epoch.
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

    /// Something that goes along: see [`Callback`]. They are called in the order in which they were
    /// added; `&mut` of one can be asked afterwards.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// use dl_train::{EarlyStopping, Trainer};
    /// let (w, mut stopping) = (Weight::new(1.0_f64), EarlyStopping::on("loss").patience(2));
    /// let outcome = Trainer::new(&Sgd::new(0.0), 100).callback(&mut stopping).run(|_| Ok([Ok(())]), |()| &w * &w)?;
    /// assert_eq!((outcome.epochs.len(), stopping.best()), (3, Some(1.0))); // nothing gets better
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn callback(mut self, callback: impl Callback + 'a) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    /// Goes on from the latest checkpoint in this folder, if there is one, and saves one after each
    /// epoch, and when it is interrupted.
    ///
    /// The module has to hold all that the run changes: weights and buffers. What the optimizer
    /// remembers, where in the epochs the run is, and what callbacks remember, is saved, too; the
    /// batches of an epoch have to depend on its number only. Then a run that goes on is
    /// bit-identical to one that never stopped, dropout and the like included: layers that draw are
    /// built by the loss, or before the run, in the same order each time.
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
    /// run(2)?; // stops early, as far as the next one is concerned
    /// let (epochs, resumed) = run(5)?;
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// assert_eq!((epochs, resumed), run(5)?);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn checkpoints(mut self, checkpoints: &Checkpoints, module: &'a dyn Module) -> Self {
        self.saving = Some(Saving { checkpoints: checkpoints.clone(), module });
        self
    }

    /// Saves a checkpoint after so many steps, too. When the run goes on in the middle of an epoch,
    /// the batches before are skipped.
    ///
    /// ```
    /// use dl_train::{Checkpoints, Trainer};
    /// let (net, sgd) = (dl_core::Weight::new(1.0_f64), dl_optim::Sgd::new(0.1));
    /// let trainer = Trainer::new(&sgd, 10).checkpoints(&Checkpoints::in_folder("run"), &net).every(1000);
    /// ```
    pub fn every(mut self, steps: u64) -> Self {
        self.every = Some(steps);
        self
    }

    /// Stops after the step during which this request was made, and saves a checkpoint.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// use dl_train::{Interrupt, Trainer};
    /// let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::new());
    /// let trainer = Trainer::new(&Sgd::new(0.1), 1000).interrupt(&interrupt);
    /// let stop = interrupt.clone(); // for another thread, or a handler of signals
    /// let outcome = trainer.run(|_| Ok([Ok(())]), |()| {
    ///     stop.request();
    ///     &w * &w
    /// })?;
    /// assert_eq!(outcome.steps, 1);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn interrupt(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = interrupt.clone();
        self
    }

    /// Has all steps [recorded](dl_core::Do::recorded). What is recorded is kept until it is taken:
    /// a callback may do that.
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

    /// Refuses a step whose loss or deltas are not finite: the run ends with an error that says
    /// which operation is the first whose value or derivative is not finite, and where it was
    /// written. No weight has changed by that step. As long as all is finite, this costs a look at
    /// the deltas.
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
        self.refuses = true;
        self
    }

    /// Trains, in each epoch on the batches that `batches` has for it, by a step on the loss of
    /// each.
    ///
    /// # Errors
    /// Those of the batches, of the steps, of the validation, of callbacks, and of checkpoints;
    /// when an epoch has no batch, or a setting makes no sense.
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
        let mut at = self.start()?;
        let stopped = loop {
            if at.ended {
                break Stopped::Early;
            }
            if at.epoch == at.epochs {
                break Stopped::Finished;
            }
            if self.interrupt.is_requested() {
                break Stopped::Interrupted;
            }
            let batches = batches(at.epoch)?;
            if !self.epoch(&mut at, batches, &mut loss)? {
                break Stopped::Interrupted;
            }
        };
        self.callbacks.iter_mut().try_for_each(|callback| callback.end(stopped))?;
        Ok(Outcome { stopped, steps: at.step, epochs: at.history, skipped: at.skipped })
    }

    /// Looks at the settings, and goes to where the run begins.
    fn start(&mut self) -> Result<Place> {
        if let Some(every) = self.every.filter(|&every| every == 0 || self.saving.is_none()) {
            let why =
                format!("a checkpoint every {every} steps: say at least 1, and where they go, with `checkpoints`");
            return Err(Error::invalid(why));
        }
        if let Some(Saving { checkpoints, .. }) = &self.saving {
            checkpoints.check()?;
        }
        let latest = self.saving.as_ref().map_or(Ok(None), |saving| saving.checkpoints.latest())?;
        let mut at = match &latest {
            Some(latest) => history::place(&latest.saved, self.seed, latest.step)?,
            None => Place::default(),
        };
        let (epoch, epochs) = (at.epoch, self.epochs);
        if epochs == 0 || epoch > epochs {
            return Err(Error::invalid(format!("a run of {epochs} epochs, of which {epoch} are over already")));
        }
        if epoch == epochs && at.batch > 0 {
            let batches = at.batch;
            return Err(Error::invalid(format!(
                "a run of {epochs} epochs, of which {epoch} are over already, and {batches} batches of the next one have been learned from"
            )));
        }
        if let (Some(Saving { module, .. }), Some(latest)) = (&self.saving, latest) {
            self.callbacks.iter_mut().try_for_each(|callback| callback.load(&latest.saved))?;
            let restore = latest.saved.restore().module("net", *module);
            restore.optimizer("optimizer", &self.optimizer, *module).apply()?;
            at.skipped = latest.skipped;
        }
        at.epochs = self.epochs;
        self.callbacks.iter_mut().try_for_each(|callback| callback.start(&at))?;
        // what cannot be saved is better known before an epoch than after it
        if let Some(Saving { module, .. }) = &self.saving {
            self.checkpoint(&at, *module).check().map_err(|error| error.context("checkpoints of this run"))?;
        }
        Ok(at)
    }

    /// The rest of an epoch, or less, if it is interrupted. Says whether it is over.
    fn epoch<B, A: Data + Into<f64>>(
        &mut self,
        at: &mut Place,
        batches: impl IntoIterator<Item = Result<B>>,
        loss: &mut impl FnMut(B) -> Layer<A>,
    ) -> Result<bool> {
        let mut batches = batches.into_iter();
        for batch in 0..at.batch {
            let why = || {
                Error::invalid(format!("the checkpoint was saved after {} batches, and there are {batch}", at.batch))
            };
            batches.next().ok_or_else(why)??;
        }
        let left = batches.size_hint();
        at.batches = left.1.filter(|&most| most == left.0).and_then(|left| at.batch.checked_add(left as u64));
        self.callbacks.iter_mut().try_for_each(|callback| callback.begin(at))?;
        for batch in batches {
            let here = |error: Error| error.context(format_args!("epoch {}, step {}", at.epoch, at.step));
            let position = self.position.wrapping_add((at.step + 1) << 32);
            let step = |batch| Seed::at_position(position, || self.step(loss(batch), at.step));
            let loss: f64 = batch.and_then(step).map_err(here)?.into();
            (at.batch, at.step, at.sum) = (at.batch + 1, at.step + 1, at.sum + loss);
            let record = Record::new(at.epoch, at.step).with("loss", loss)?;
            self.callbacks.iter_mut().try_for_each(|callback| callback.step(&record))?;
            let interrupted = self.interrupt.is_requested() && at.batches != Some(at.batch);
            if interrupted || self.every.is_some_and(|every| at.step.is_multiple_of(every)) {
                self.save(at)?;
            }
            if interrupted {
                return Ok(false);
            }
        }
        self.end_of_epoch(at)?;
        Ok(true)
    }

    /// One step; the seed of it depends on its number.
    fn step<A: Data>(&self, loss: Layer<A>, step: u64) -> Result<A> {
        let seed = self.seed.wrapping_add(step);
        let settings = |run: Do<A>| match &self.recorder {
            Some(recorder) => run.seed(seed).recorded(recorder),
            None => run.seed(seed),
        };
        if !self.refuses {
            return settings(loss.train(&self.optimizer)).wait();
        }
        let refusing = self.optimizer.clone().refuse_non_finite();
        settings(loss.refuse_non_finite().train(&refusing)).wait().map_err(|error| {
            if !error.is_not_finite() {
                return error;
            }
            // nothing has changed, so it can be looked at again
            let first = loss.first_non_finite().seed(seed).wait();
            first.ok().flatten().unwrap_or(error).context("the step was refused")
        })
    }

    /// All batches of the epoch have been learned from.
    fn end_of_epoch(&mut self, at: &mut Place) -> Result<()> {
        if at.batch == 0 {
            return Err(Error::invalid(format!("epoch {} has no batches", at.epoch)));
        }
        let mut record = Record::new(at.epoch, at.step).with("loss", at.sum / at.batch as f64)?;
        if let Some(validate) = &mut self.validate {
            record =
                validate(record).map_err(|error| error.context(format_args!("validation of epoch {}", at.epoch)))?;
        }
        for callback in &mut self.callbacks {
            at.ended |= callback.epoch(&record)?.is_break();
        }
        at.history.push(record);
        (at.epoch, at.batch, at.sum) = (at.epoch + 1, 0, 0.0);
        self.save(at)
    }

    fn save(&self, at: &Place) -> Result<()> {
        let Some(Saving { checkpoints, module }) = &self.saving else { return Ok(()) };
        checkpoints.save(at.step, &self.checkpoint(at, *module)).map(drop)
    }

    /// All that the run needs to go on from here.
    fn checkpoint(&self, at: &Place, module: &dyn Module) -> Checkpoint {
        let checkpoint = Checkpoint::new().module("net", module).optimizer("optimizer", &self.optimizer, module);
        let checkpoint = history::with_place(checkpoint, at, self.seed);
        self.callbacks.iter().fold(checkpoint, |checkpoint, callback| callback.save(checkpoint))
    }
}
