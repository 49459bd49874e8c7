//! Hooks into a training run: progress, logs, early stopping, and callbacks of the user.

use crate::checkpoint::Checkpoint;
use crate::record::Record;
use crate::saved::Saved;
use crate::trainer::{Place, Stopped};
use dl_core::Result;
use std::ops::ControlFlow;

/// A hook into the run of a [`Trainer`](crate::Trainer). It observes steps and epochs, can end the
/// run after an epoch, and can save state in the checkpoints of the run.
///
/// The default of every method does nothing. An error ends the run.
///
/// ```
/// use dl_core::{Differentiable, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Callback, Record, Stopped, Trainer};
/// use std::ops::ControlFlow;
///
/// /// Ends the run as soon as the loss is below a threshold.
/// struct GoodEnough(f64);
///
/// impl Callback for GoodEnough {
///     fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
///         let loss = record.get("loss").unwrap_or(f64::INFINITY);
///         Ok(if loss < self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
///     }
/// }
///
/// let w = Weight::new(1.0_f64);
/// let trainer = Trainer::new(&Sgd::new(0.1), 1000).callback(GoodEnough(1e-3));
/// let outcome = trainer.run(|_| Ok([Ok(0.0)]), |x: f64| (&w - x).square())?;
/// assert_eq!((outcome.stopped, outcome.epochs.len()), (Stopped::Early, 17));
/// # Result::Ok(())
/// ```
///
/// A callback that logs every event and saves a counter in the checkpoints:
///
/// ```
/// use dl_core::{Differentiable, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Callback, Checkpoint, Place, Record, Saved, Stopped, Trainer};
///
/// #[derive(Default)]
/// struct EventLog {
///     steps: u64,
///     events: Vec<String>,
/// }
///
/// impl Callback for EventLog {
///     fn start(&mut self, at: &Place) -> Result<()> {
///         self.events.push(format!("from epoch {} of {}", at.epoch, at.epochs));
///         Ok(())
///     }
///     fn begin(&mut self, at: &Place) -> Result<()> {
///         self.events.push(format!("epoch {}", at.epoch));
///         Ok(())
///     }
///     fn step(&mut self, _: &Record) -> Result<()> {
///         self.steps += 1;
///         Ok(())
///     }
///     fn end(&mut self, stopped: Stopped) -> Result<()> {
///         self.events.push(format!("{stopped:?}"));
///         Ok(())
///     }
///     fn save(&self, checkpoint: Checkpoint) -> Checkpoint {
///         checkpoint.count("steps", self.steps)
///     }
///     fn load(&mut self, saved: &Saved) -> Result<()> {
///         self.steps = saved.count("steps")?;
///         Ok(())
///     }
/// }
///
/// let (w, mut log) = (Weight::new(1.0_f64), EventLog::default());
/// Trainer::new(&Sgd::new(0.1), 2).callback(&mut log).run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
/// assert_eq!(log.events, ["from epoch 0 of 2", "epoch 0", "epoch 1", "Finished"]);
/// assert_eq!(log.steps, 4);
/// # Result::Ok(())
/// ```
pub trait Callback {
    /// Called when the run starts or resumes. `at` is the position where it starts.
    ///
    /// # Errors
    /// Any error ends the run.
    fn start(&mut self, at: &Place) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// Called when an epoch starts or resumes.
    ///
    /// # Errors
    /// Any error ends the run.
    fn begin(&mut self, at: &Place) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// Called after each step. The number `loss` of the record is the loss of the batch.
    ///
    /// # Errors
    /// Any error ends the run.
    fn step(&mut self, record: &Record) -> Result<()> {
        let _ = record;
        Ok(())
    }

    /// Called after each epoch. The number `loss` of the record is the mean over the batches; the
    /// numbers of the validation follow. `ControlFlow::Break` ends the run.
    ///
    /// # Errors
    /// Any error ends the run.
    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        let _ = record;
        Ok(ControlFlow::Continue(()))
    }

    /// Called when the run ends without an error.
    ///
    /// # Errors
    /// Any error becomes the error of the run.
    fn end(&mut self, stopped: Stopped) -> Result<()> {
        let _ = stopped;
        Ok(())
    }

    /// Whether a run [on several ranks](crate::Trainer::across) calls it on rank 0 only, as suits one
    /// that prints or writes a file. By default it is called on all ranks, as one must be that
    /// changes weights.
    ///
    /// ```
    /// use dl_core::Result;
    /// use dl_train::{Callback, Record};
    ///
    /// struct Print;
    ///
    /// impl Callback for Print {
    ///     fn step(&mut self, record: &Record) -> Result<()> {
    ///         println!("{:?}", record.get("loss"));
    ///         Ok(())
    ///     }
    ///
    ///     fn only_on_first_rank(&self) -> bool {
    ///         true
    ///     }
    /// }
    ///
    /// assert!(Print.only_on_first_rank());
    /// ```
    fn only_on_first_rank(&self) -> bool {
        false
    }

    /// Adds the state of the callback to a checkpoint.
    fn save(&self, checkpoint: Checkpoint) -> Checkpoint {
        checkpoint
    }

    /// Restores the state of the callback from a checkpoint. On resume, first all callbacks are
    /// loaded, then the weights are set, then [`start`](Callback::start) is called.
    ///
    /// # Errors
    /// Any error ends the run before the weights are set.
    fn load(&mut self, saved: &Saved) -> Result<()> {
        let _ = saved;
        Ok(())
    }
}

/// Lends a callback to a run, so that it can be inspected afterwards.
impl<C: Callback + ?Sized> Callback for &mut C {
    fn start(&mut self, at: &Place) -> Result<()> {
        (**self).start(at)
    }

    fn begin(&mut self, at: &Place) -> Result<()> {
        (**self).begin(at)
    }

    fn step(&mut self, record: &Record) -> Result<()> {
        (**self).step(record)
    }

    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        (**self).epoch(record)
    }

    fn end(&mut self, stopped: Stopped) -> Result<()> {
        (**self).end(stopped)
    }

    fn only_on_first_rank(&self) -> bool {
        (**self).only_on_first_rank()
    }

    fn save(&self, checkpoint: Checkpoint) -> Checkpoint {
        (**self).save(checkpoint)
    }

    fn load(&mut self, saved: &Saved) -> Result<()> {
        (**self).load(saved)
    }
}
