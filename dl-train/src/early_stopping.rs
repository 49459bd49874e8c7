//! Early stopping.

use crate::callback::Callback;
use crate::checkpoint::Checkpoint;
use crate::record::Record;
use crate::saved::Saved;
use crate::trainer::{Place, Stopped};
use dl_core::{Entry, Error, Module, NewValue, Numbers, Result};
use std::ops::ControlFlow;

/// Ends a run when a number has not improved for some epochs.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{EarlyStopping, Stopped, Trainer};
/// let net = [Weight::new(3.0_f64)];
/// // the step is too large: the weight goes from 3 past 0 and diverges
/// let mut best = EarlyStopping::on("distance").patience(2).restoring(&net);
/// let trainer = Trainer::new(&Sgd::new(1.0), 100).validate(|| Ok([("distance", net[0].value().abs())])).callback(&mut best);
/// let outcome = trainer.run(|_| Ok([Ok(())]), |()| net[0].layer())?;
/// assert_eq!(outcome.stopped, Stopped::Early);
/// assert_eq!((outcome.epochs.len(), net[0].value()), (5, 0.0));
/// assert_eq!((best.best(), best.best_epoch()), (Some(0.0), Some(2)));
/// # dl_core::Result::Ok(())
/// ```
///
/// Its state is saved in the checkpoints of the run, including a copy of the best weights.
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    metric: String,
    greater_is_better: bool,
    patience: u64,
    min_delta: f64,
    /// The weights and buffers to restore; empty unless [`restoring`](EarlyStopping::restoring) was
    /// called.
    entries: Vec<Entry>,
    best: Option<Best>,
    waited: u64,
}

#[derive(Clone, Debug)]
struct Best {
    value: f64,
    epoch: u64,
    numbers: Vec<Numbers>,
}

impl EarlyStopping {
    /// Early stopping on the number `metric` of the records of epochs. By default smaller is
    /// better, and the run ends at the first epoch without improvement.
    pub fn on(metric: impl Into<String>) -> EarlyStopping {
        EarlyStopping {
            metric: metric.into(),
            greater_is_better: false,
            patience: 0,
            min_delta: 0.0,
            entries: Vec::new(),
            best: None,
            waited: 0,
        }
    }

    /// Treats larger numbers as better, as for an accuracy.
    ///
    /// ```
    /// let early = dl_train::EarlyStopping::on("test accuracy").greater_is_better();
    /// ```
    #[must_use]
    pub fn greater_is_better(mut self) -> EarlyStopping {
        self.greater_is_better = true;
        self
    }

    /// Sets the number of consecutive epochs without improvement after which the run ends. 0 and 1
    /// both end it at the first such epoch.
    ///
    /// ```
    /// let early = dl_train::EarlyStopping::on("loss").patience(5);
    /// ```
    #[must_use]
    pub fn patience(mut self, epochs: u64) -> EarlyStopping {
        self.patience = epochs;
        self
    }

    /// Sets the difference to the best number that must be exceeded to count as an improvement; 0
    /// by default.
    ///
    /// ```
    /// let early = dl_train::EarlyStopping::on("loss").min_delta(1e-4);
    /// ```
    #[must_use]
    pub fn min_delta(mut self, difference: f64) -> EarlyStopping {
        self.min_delta = difference;
        self
    }

    /// Keeps a copy of the weights and buffers of the best epoch, and restores it when the run
    /// ends. An interrupted run is not restored. On several ranks, each one keeps its own.
    #[must_use]
    pub fn restoring(mut self, module: &dyn Module) -> EarlyStopping {
        let is_kept = |entry: &Entry| entry.tied_to().is_none() && entry.rank().is_none();
        self.entries = module.entries().into_iter().filter(is_kept).collect();
        self
    }

    /// The best number so far.
    pub fn best(&self) -> Option<f64> {
        self.best.as_ref().map(|best| best.value)
    }

    /// The epoch of the best number.
    pub fn best_epoch(&self) -> Option<u64> {
        self.best.as_ref().map(|best| best.epoch)
    }

    fn is_better(&self, value: f64) -> bool {
        let Some(best) = self.best() else { return !value.is_nan() };
        if self.greater_is_better { value - self.min_delta > best } else { value + self.min_delta < best }
    }

    /// The name of a value in a checkpoint.
    fn name(&self, what: &str) -> String {
        format!("early stopping on {}: {what}", self.metric.replace('/', "."))
    }

    fn tensor_name(&self, entry: &Entry) -> String {
        format!("best/{}/{}", self.metric.replace('/', "."), entry.path())
    }
}

impl Callback for EarlyStopping {
    fn start(&mut self, at: &Place) -> Result<()> {
        if at.step == 0 {
            // discard the state of an earlier run
            (self.best, self.waited) = (None, 0);
        }
        if self.min_delta.is_finite() && self.min_delta >= 0.0 {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "early stopping: `min_delta` is {}: it must be finite and at least 0",
            self.min_delta
        )))
    }

    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        let value = record.require(&self.metric).map_err(|error| error.context("early stopping"))?;
        if self.is_better(value) {
            let numbers = self.entries.iter().map(Entry::numbers).collect();
            self.best = Some(Best { value, epoch: record.epoch, numbers });
            self.waited = 0;
            return Ok(ControlFlow::Continue(()));
        }
        self.waited += 1;
        Ok(if self.waited < self.patience { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn end(&mut self, stopped: Stopped) -> Result<()> {
        let Some(best) = self.best.as_ref().filter(|_| stopped != Stopped::Interrupted) else { return Ok(()) };
        let each = self.entries.iter().zip(&best.numbers);
        NewValue::set_all(
            each.map(|(entry, numbers)| entry.check(&entry.shape(), numbers.clone())).collect::<Result<_>>()?,
        )
    }

    fn save(&self, checkpoint: Checkpoint) -> Checkpoint {
        let checkpoint = checkpoint.count(&self.name("waited"), self.waited);
        let Some(best) = &self.best else { return checkpoint };
        let checkpoint = checkpoint.number(&self.name("best"), best.value).count(&self.name("epoch"), best.epoch);
        let each = self.entries.iter().zip(&best.numbers);
        each.fold(checkpoint, |checkpoint, (entry, numbers)| {
            checkpoint.copy(self.tensor_name(entry), entry, numbers.clone())
        })
    }

    fn load(&mut self, saved: &Saved) -> Result<()> {
        let waited = saved.count(&self.name("waited"))?;
        let best = match saved.has_number(&self.name("best")) {
            false => None,
            true => Some(Best {
                value: saved.number(&self.name("best"))?,
                epoch: saved.count(&self.name("epoch"))?,
                numbers: self
                    .entries
                    .iter()
                    .map(|entry| saved.copy(&self.tensor_name(entry), entry))
                    .collect::<Result<_>>()?,
            }),
        };
        (self.best, self.waited) = (best, waited);
        Ok(())
    }
}
