//! The one-cycle schedule.

use crate::schedule::cosine::between;
use crate::schedule::{Allowed, Schedule, check, check_steps};
use dl_core::Result;

/// The one-cycle schedule: up from a small learning rate to the greatest, and down to a much
/// smaller one, by cosine or linear interpolation; constant after the last step. PyTorch's
/// `OneCycleLR`, except that the momentum is not changed.
///
/// Smith & Topin, *Super-convergence: very fast training of neural networks using large learning
/// rates*, 2018.
///
/// ```
/// use dl_optim::schedule::{OneCycle, Schedule};
/// let schedule = OneCycle::new(0.5, 101);
/// assert!((schedule.at(0)? - 0.02).abs() < 1e-15);
/// assert!(schedule.at(30)? > 0.499);
/// assert!((schedule.at(100)? - 0.02e-4).abs() < 1e-15);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneCycle {
    greatest: f64,
    steps: u64,
    warm_up: f64,
    initial: f64,
    last: f64,
    linear: bool,
    three_phases: bool,
}

impl OneCycle {
    /// A cycle of this number of steps: in the first 30 % of the steps from `greatest / 25` up to
    /// `greatest`, then down to `greatest / 250,000`.
    pub fn new(greatest: f64, steps: u64) -> Self {
        OneCycle { greatest, steps, warm_up: 0.3, initial: 25.0, last: 1e4, linear: false, three_phases: false }
    }

    /// The fraction of the steps in which the learning rate rises: `pct_start`.
    ///
    /// ```
    /// let schedule = dl_optim::schedule::OneCycle::new(0.5, 100).warm_up(0.1);
    /// ```
    #[must_use]
    pub fn warm_up(mut self, part: f64) -> Self {
        self.warm_up = part;
        self
    }

    /// The ratio of the greatest learning rate to the first, and of the first to the last:
    /// `div_factor`, `final_div_factor`.
    ///
    /// ```
    /// let schedule = dl_optim::schedule::OneCycle::new(0.5, 100).divided_by(10.0, 1e3);
    /// ```
    #[must_use]
    pub fn divided_by(mut self, initial: f64, last: f64) -> Self {
        (self.initial, self.last) = (initial, last);
        self
    }

    /// Linear instead of cosine interpolation.
    ///
    /// ```
    /// let schedule = dl_optim::schedule::OneCycle::new(0.5, 100).linear();
    /// ```
    #[must_use]
    pub fn linear(mut self) -> Self {
        self.linear = true;
        self
    }

    /// Three phases: up, down to the first learning rate in as many steps, then to the last one.
    ///
    /// ```
    /// let schedule = dl_optim::schedule::OneCycle::new(0.5, 100).three_phases();
    /// ```
    #[must_use]
    pub fn three_phases(mut self) -> Self {
        self.three_phases = true;
        self
    }
}

impl Schedule for OneCycle {
    fn at(&self, step: u64) -> Result<f64> {
        check("the greatest learning rate", self.greatest, Allowed::Finite)?;
        check_steps("the number of steps", self.steps)?;
        let most = if self.three_phases { 0.5 } else { 1.0 };
        check("the part of the warm-up", self.warm_up, Allowed::UpTo(most))?;
        check("the first divisor", self.initial, Allowed::FiniteAboveZero)?;
        check("the last divisor", self.last, Allowed::FiniteAboveZero)?;

        let steps = self.steps as f64;
        let initial = self.greatest / self.initial;
        let up = self.warm_up * steps - 1.0;
        let mut phases = vec![(up, initial, self.greatest)];
        if self.three_phases {
            phases.push((2.0 * self.warm_up * steps - 2.0, self.greatest, initial));
            phases.push((steps - 1.0, initial, initial / self.last));
        } else {
            phases.push((steps - 1.0, self.greatest, initial / self.last));
        }
        let step = step.min(self.steps - 1) as f64;
        let mut start = 0.0;
        for (end, from, to) in phases {
            if step <= end {
                let way = if end > start { (step - start) / (end - start) } else { 1.0 };
                return Ok(if self.linear { from + (to - from) * way } else { between(from, to, way) });
            }
            start = end;
        }
        Ok(initial / self.last)
    }
}
