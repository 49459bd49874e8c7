//! What goes along with a training run: progress, logs, early stopping, and what you write
//! yourself.

use crate::checkpoint::Checkpoint;
use crate::record::Record;
use crate::saved::Saved;
use crate::trainer::{Place, Stopped};
use dl_core::Result;
use std::ops::ControlFlow;

/// Something that goes along with a [`Trainer`](crate::Trainer): it sees what happens, may end the
/// run after an epoch, and may keep what it needs in the checkpoints of the run.
///
/// Every method does nothing unless it is written. An error ends the run.
///
/// ```
/// use dl_core::{Differentiable, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Callback, Record, Stopped, Trainer};
/// use std::ops::ControlFlow;
///
/// /// Ends the run as soon as the loss is small enough.
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
/// One that sees a whole run, and keeps a number in its checkpoints:
///
/// ```
/// use dl_core::{Differentiable, Result, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Callback, Checkpoint, Place, Record, Saved, Stopped, Trainer};
///
/// #[derive(Default)]
/// struct Seen {
///     steps: u64,
///     story: Vec<String>,
/// }
///
/// impl Callback for Seen {
///     fn start(&mut self, at: &Place) -> Result<()> {
///         self.story.push(format!("from epoch {} of {}", at.epoch, at.epochs));
///         Ok(())
///     }
///     fn begin(&mut self, at: &Place) -> Result<()> {
///         self.story.push(format!("epoch {}", at.epoch));
///         Ok(())
///     }
///     fn step(&mut self, _: &Record) -> Result<()> {
///         self.steps += 1;
///         Ok(())
///     }
///     fn end(&mut self, stopped: Stopped) -> Result<()> {
///         self.story.push(format!("{stopped:?}"));
///         Ok(())
///     }
///     fn save(&self, checkpoint: Checkpoint) -> Checkpoint {
///         checkpoint.count("steps seen", self.steps)
///     }
///     fn load(&mut self, saved: &Saved) -> Result<()> {
///         self.steps = saved.count("steps seen")?;
///         Ok(())
///     }
/// }
///
/// let (w, mut seen) = (Weight::new(1.0_f64), Seen::default());
/// Trainer::new(&Sgd::new(0.1), 2).callback(&mut seen).run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
/// assert_eq!(seen.story, ["from epoch 0 of 2", "epoch 0", "epoch 1", "Finished"]);
/// assert_eq!(seen.steps, 4);
/// # Result::Ok(())
/// ```
pub trait Callback {
    /// The run begins, or goes on, here.
    ///
    /// # Errors
    /// Any error ends the run.
    fn start(&mut self, at: &Place) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// An epoch begins, or goes on, here.
    ///
    /// # Errors
    /// Any error ends the run.
    fn begin(&mut self, at: &Place) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// A step was taken; the number `loss` is that of its batch.
    ///
    /// # Errors
    /// Any error ends the run.
    fn step(&mut self, record: &Record) -> Result<()> {
        let _ = record;
        Ok(())
    }

    /// An epoch is over; the number `loss` is the mean over its batches, and those of the
    /// validation follow. Says whether the run goes on.
    ///
    /// # Errors
    /// Any error ends the run.
    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        let _ = record;
        Ok(ControlFlow::Continue(()))
    }

    /// The run is over, but not by an error.
    ///
    /// # Errors
    /// Any error becomes that of the run.
    fn end(&mut self, stopped: Stopped) -> Result<()> {
        let _ = stopped;
        Ok(())
    }

    /// Adds to a checkpoint what it needs to go on.
    fn save(&self, checkpoint: Checkpoint) -> Checkpoint {
        checkpoint
    }

    /// Takes that out of a checkpoint again. All callbacks do so, then the weights are set, then
    /// [`start`](Callback::start) is called.
    ///
    /// # Errors
    /// Any error ends the run, with its weights as they are.
    fn load(&mut self, saved: &Saved) -> Result<()> {
        let _ = saved;
        Ok(())
    }
}

/// Lent to a run, to be asked afterwards.
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

    fn save(&self, checkpoint: Checkpoint) -> Checkpoint {
        (**self).save(checkpoint)
    }

    fn load(&mut self, saved: &Saved) -> Result<()> {
        (**self).load(saved)
    }
}
