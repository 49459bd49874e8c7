//! A learning rate that is reduced when a metric has stopped improving.

use crate::schedule::{Allowed, Schedule, check};
use dl_core::{Error, Notes, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A learning rate that is multiplied by a factor when a metric, which is
/// [reported](Plateau::report) from time to time, has not improved for a while. PyTorch's
/// `ReduceLROnPlateau`.
///
/// Clones share their state: give one to an optimizer and report to the other. The state is saved
/// with the state of the optimizer.
///
/// ```
/// use dl_optim::{Sgd, schedule::Plateau};
/// let plateau = Plateau::new(0.5).patience(1);
/// let sgd = Sgd::new(plateau.clone());
/// for loss in [3.0, 2.0, 2.0, 2.0] {
///     // one epoch of training, then
///     plateau.report(loss)?;
/// }
/// assert_eq!(sgd.learning_rate()?, 0.05);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Plateau {
    initial: f64,
    factor: f64,
    patience: u64,
    threshold: f64,
    absolute: bool,
    greater_is_better: bool,
    cooldown: u64,
    minimum: f64,
    notes: Notes,
    /// Held during a report.
    reporting: Arc<Mutex<()>>,
}

impl Plateau {
    /// Starts with this learning rate. The factor is 0.1, the patience 10, the threshold 1e-4,
    /// relative; a smaller metric is better; there is no cooldown and no minimum.
    pub fn new(initial: f64) -> Self {
        Plateau {
            initial,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            absolute: false,
            greater_is_better: false,
            cooldown: 0,
            minimum: 0.0,
            notes: Notes::new(),
            reporting: Arc::default(),
        }
    }

    /// The factor by which the learning rate is reduced; it must be below 1.
    ///
    /// ```
    /// let plateau = dl_optim::schedule::Plateau::new(0.1).factor(0.5);
    /// ```
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The number of reports without an improvement that are tolerated.
    ///
    /// ```
    /// let plateau = dl_optim::schedule::Plateau::new(0.1).patience(3);
    /// ```
    #[must_use]
    pub fn patience(mut self, reports: u64) -> Self {
        self.patience = reports;
        self
    }

    /// The minimum improvement, relative to the best metric so far.
    ///
    /// ```
    /// let plateau = dl_optim::schedule::Plateau::new(0.1).threshold(0.01);
    /// ```
    #[must_use]
    pub fn threshold(mut self, part: f64) -> Self {
        (self.threshold, self.absolute) = (part, false);
        self
    }

    /// The minimum improvement, as an absolute difference from the best metric so far.
    ///
    /// ```
    /// let plateau = dl_optim::schedule::Plateau::new(0.1).absolute_threshold(0.01);
    /// ```
    #[must_use]
    pub fn absolute_threshold(mut self, difference: f64) -> Self {
        (self.threshold, self.absolute) = (difference, true);
        self
    }

    /// A greater metric is better: for an accuracy instead of a loss.
    ///
    /// ```
    /// let plateau = dl_optim::schedule::Plateau::new(0.1).greater_is_better();
    /// ```
    #[must_use]
    pub fn greater_is_better(mut self) -> Self {
        self.greater_is_better = true;
        self
    }

    /// The number of reports after a reduction that do not count as reports without an improvement.
    ///
    /// ```
    /// let plateau = dl_optim::schedule::Plateau::new(0.1).cooldown(2);
    /// ```
    #[must_use]
    pub fn cooldown(mut self, reports: u64) -> Self {
        self.cooldown = reports;
        self
    }

    /// The minimum learning rate.
    ///
    /// ```
    /// let plateau = dl_optim::schedule::Plateau::new(0.1).minimum(1e-5);
    /// ```
    #[must_use]
    pub fn minimum(mut self, minimum: f64) -> Self {
        self.minimum = minimum;
        self
    }

    /// Reports the metric of an epoch, which may reduce the learning rate of the steps after this.
    ///
    /// # Errors
    /// When the metric is not finite, or a setting is out of range. Then nothing is changed.
    pub fn report(&self, metric: f64) -> Result<()> {
        let rate = self.at(0)?;
        if !metric.is_finite() {
            return Err(Error::not_finite(format!("the metric that was reported to the schedule is {metric}")));
        }
        let _reporting: MutexGuard<'_, ()> = self.reporting.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = |name| self.notes.get(name).unwrap_or(0.0);
        let better = self.notes.get(BEST).is_none_or(|best| self.is_better(metric, best));
        let (mut bad, mut cooldown) = (remembered(BAD), remembered(COOLDOWN));
        bad = if better { 0.0 } else { bad + 1.0 };
        if cooldown > 0.0 {
            (bad, cooldown) = (0.0, cooldown - 1.0);
        }
        let mut numbers = self.notes.all();
        if bad > self.patience as f64 {
            let lower = (rate * self.factor).max(self.minimum);
            if rate - lower > MIN_REDUCTION {
                numbers.insert(RATE.to_owned(), lower);
            }
            (bad, cooldown) = (0.0, self.cooldown as f64);
        }
        if better {
            numbers.insert(BEST.to_owned(), metric);
        }
        numbers.insert(BAD.to_owned(), bad);
        numbers.insert(COOLDOWN.to_owned(), cooldown);
        self.notes.replace(numbers);
        Ok(())
    }

    fn is_better(&self, metric: f64, best: f64) -> bool {
        let threshold = self.threshold;
        match (self.greater_is_better, self.absolute) {
            (false, false) => metric < best * (1.0 - threshold),
            (false, true) => metric < best - threshold,
            (true, false) => metric > best * (1.0 + threshold),
            (true, true) => metric > best + threshold,
        }
    }
}

// keys of PyTorch's `state_dict`
const BEST: &str = "best";
const BAD: &str = "num_bad_epochs";
const COOLDOWN: &str = "cooldown_counter";
const RATE: &str = "last_lr";

/// PyTorch's `eps`: a reduction that is not larger than this is left out.
const MIN_REDUCTION: f64 = 1e-8;

impl Schedule for Plateau {
    fn at(&self, _: u64) -> Result<f64> {
        check("the initial learning rate", self.initial, Allowed::Finite)?;
        check("the factor", self.factor, Allowed::BelowOne)?;
        check("the threshold", self.threshold, Allowed::FiniteFromZero)?;
        check("the minimum", self.minimum, Allowed::Finite)?;
        Ok(self.notes.get(RATE).unwrap_or(self.initial))
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        vec![("plateau".to_owned(), self.notes.clone())]
    }
}
