//! Monotonic schedules: step decay, exponential, linear, polynomial.

use crate::schedule::{Allowed, Schedule, check, check_steps};
use dl_core::Result;

/// The initial learning rate, multiplied by `gamma` after every period of steps. PyTorch's
/// `StepLR`.
///
/// ```
/// use dl_optim::schedule::{Schedule, StepDecay};
/// let schedule = StepDecay::new(0.8, 30, 0.5);
/// assert_eq!((schedule.at(29)?, schedule.at(30)?, schedule.at(60)?), (0.8, 0.4, 0.2));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StepDecay {
    initial: f64,
    every: u64,
    gamma: f64,
}

impl StepDecay {
    /// `initial · gamma^⌊step / every⌋`
    pub fn new(initial: f64, every: u64, gamma: f64) -> Self {
        StepDecay { initial, every, gamma }
    }
}

impl Schedule for StepDecay {
    fn at(&self, step: u64) -> Result<f64> {
        check_steps("the period", self.every)?;
        powers(self.initial, self.gamma, (step / self.every) as f64)
    }
}

/// The initial learning rate, multiplied by `gamma` at each milestone; a milestone that is listed
/// twice counts twice. PyTorch's `MultiStepLR`.
///
/// ```
/// use dl_optim::schedule::{MultiStep, Schedule};
/// let schedule = MultiStep::new(0.8, [30, 80], 0.5);
/// assert_eq!((schedule.at(29)?, schedule.at(30)?, schedule.at(80)?), (0.8, 0.4, 0.2));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiStep {
    initial: f64,
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStep {
    /// `initial · gamma^(number of milestones up to this step)`
    pub fn new(initial: f64, milestones: impl IntoIterator<Item = u64>, gamma: f64) -> Self {
        MultiStep { initial, milestones: milestones.into_iter().collect(), gamma }
    }
}

impl Schedule for MultiStep {
    fn at(&self, step: u64) -> Result<f64> {
        let passed = self.milestones.iter().filter(|&&milestone| milestone <= step).count();
        powers(self.initial, self.gamma, passed as f64)
    }
}

/// The initial learning rate, multiplied by `gamma` in every step. PyTorch's `ExponentialLR`.
///
/// ```
/// use dl_optim::schedule::{Exponential, Schedule};
/// assert_eq!(Exponential::new(0.8, 0.5).at(2)?, 0.2);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    initial: f64,
    gamma: f64,
}

impl Exponential {
    /// `initial · gamma^step`
    pub fn new(initial: f64, gamma: f64) -> Self {
        Exponential { initial, gamma }
    }
}

impl Schedule for Exponential {
    fn at(&self, step: u64) -> Result<f64> {
        powers(self.initial, self.gamma, step as f64)
    }
}

fn powers(initial: f64, gamma: f64, exponent: f64) -> Result<f64> {
    check("the initial learning rate", initial, Allowed::Finite)?;
    check("gamma", gamma, Allowed::FiniteFromZero)?;
    Ok(initial * libm::pow(gamma, exponent))
}

/// Linear interpolation from one learning rate to another in a number of steps, then constant.
/// PyTorch's `LinearLR`, except that `LinearLR` takes factors of the learning rate.
///
/// The rate of the first step, 0, is `from`. A warm-up must begin above 0: with a rate of 0 the first
/// step computes all deltas and moves nothing.
///
/// ```
/// use dl_optim::schedule::{Linear, Schedule};
/// let warm_up = Linear::new(0.25, 0.5, 10);
/// assert_eq!((warm_up.at(0)?, warm_up.at(5)?, warm_up.at(1000)?), (0.25, 0.375, 0.5));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    from: f64,
    to: f64,
    steps: u64,
}

impl Linear {
    /// `from + (to − from) · min(step, steps) / steps`
    pub fn new(from: f64, to: f64, steps: u64) -> Self {
        Linear { from, to, steps }
    }
}

impl Schedule for Linear {
    fn at(&self, step: u64) -> Result<f64> {
        check("the initial learning rate", self.from, Allowed::Finite)?;
        check("the final learning rate", self.to, Allowed::Finite)?;
        check_steps("the number of steps", self.steps)?;
        // this form gives exactly `to` at the end
        let way = step.min(self.steps) as f64 / self.steps as f64;
        Ok(self.from * (1.0 - way) + self.to * way)
    }
}

/// Down to 0 in a number of steps, as a power of the fraction of steps that remain. PyTorch's
/// `PolynomialLR`.
///
/// ```
/// use dl_optim::schedule::{Polynomial, Schedule};
/// let schedule = Polynomial::new(0.4, 10, 2.0);
/// assert_eq!((schedule.at(0)?, schedule.at(5)?, schedule.at(11)?), (0.4, 0.1, 0.0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Polynomial {
    initial: f64,
    steps: u64,
    power: f64,
}

impl Polynomial {
    /// `initial · (1 − min(step, steps) / steps)^power`
    pub fn new(initial: f64, steps: u64, power: f64) -> Self {
        Polynomial { initial, steps, power }
    }
}

impl Schedule for Polynomial {
    fn at(&self, step: u64) -> Result<f64> {
        check("the initial learning rate", self.initial, Allowed::Finite)?;
        check_steps("the number of steps", self.steps)?;
        check("the power", self.power, Allowed::FiniteFromZero)?;
        Ok(self.initial * libm::pow(1.0 - step.min(self.steps) as f64 / self.steps as f64, self.power))
    }
}
