//! Cosine annealing, with and without restarts.

use crate::schedule::{Allowed, Schedule, check, check_steps};
use dl_core::Result;
use std::f64::consts::PI;

/// Cosine annealing: from the initial learning rate to a minimum in a number of steps, along half a
/// cosine wave. PyTorch's `CosineAnnealingLR`: after that number of steps, the learning rate rises
/// again. With [`restarts`](Cosine::restarts) it is `CosineAnnealingWarmRestarts`.
///
/// Loshchilov & Hutter, *SGDR: stochastic gradient descent with warm restarts*, 2017.
///
/// ```
/// use dl_optim::schedule::{Cosine, Schedule};
/// let schedule = Cosine::new(0.4, 100).minimum(0.2);
/// assert_eq!((schedule.at(0)?, schedule.at(100)?), (0.4, 0.2));
/// assert!((schedule.at(50)? - 0.3).abs() < 1e-15);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cosine {
    initial: f64,
    minimum: f64,
    steps: u64,
    /// The factor by which each wave is longer than the wave before.
    restarts: Option<u64>,
}

impl Cosine {
    /// `minimum + (initial − minimum) · (1 + cos(π · step / steps)) / 2`; the minimum is 0.
    pub fn new(initial: f64, steps: u64) -> Self {
        Cosine { initial, minimum: 0.0, steps, restarts: None }
    }

    /// Sets the minimum learning rate.
    ///
    /// ```
    /// let schedule = dl_optim::schedule::Cosine::new(0.1, 100).minimum(0.001);
    /// ```
    #[must_use]
    pub fn minimum(mut self, minimum: f64) -> Self {
        self.minimum = minimum;
        self
    }

    /// Restarts with the initial learning rate instead of reaching the minimum. Each wave is longer
    /// than the wave before by this factor.
    ///
    /// ```
    /// use dl_optim::schedule::{Cosine, Schedule};
    /// let schedule = Cosine::new(0.4, 10).restarts(2);
    /// assert_eq!((schedule.at(10)?, schedule.at(30)?), (0.4, 0.4));
    /// assert!((schedule.at(20)? - 0.2).abs() < 1e-15);
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn restarts(mut self, longer: u64) -> Self {
        self.restarts = Some(longer);
        self
    }

    /// The position of a step in its wave, and the length of the wave.
    fn wave(&self, step: u64) -> Result<(u64, u64)> {
        check_steps("the number of steps", self.steps)?;
        match self.restarts {
            None => Ok((step, self.steps)),
            Some(1) => Ok((step % self.steps, self.steps)),
            Some(longer) => {
                check_steps("the factor between the lengths", longer)?;
                let (mut step, mut steps) = (step, self.steps);
                while step >= steps {
                    step -= steps;
                    steps = steps.saturating_mul(longer);
                }
                Ok((step, steps))
            }
        }
    }
}

impl Schedule for Cosine {
    fn at(&self, step: u64) -> Result<f64> {
        check("the initial learning rate", self.initial, Allowed::Finite)?;
        check("the minimum", self.minimum, Allowed::Finite)?;
        let (step, steps) = self.wave(step)?;
        Ok(between(self.initial, self.minimum, step as f64 / steps as f64))
    }
}

/// Cosine interpolation: `from` where `way` is 0, `to` where it is 1.
pub(super) fn between(from: f64, to: f64, way: f64) -> f64 {
    to + (from - to) * (1.0 + libm::cos(PI * way)) / 2.0
}
