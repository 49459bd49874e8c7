//! Learning rate schedules.
//!
//! An optimizer takes a schedule in the place of a number. The step count is that of the
//! optimizer's [`Memory`](dl_core::Memory): it counts training steps, not updates of single weights,
//! and is incremented when a step is committed. A step that fails therefore does not advance the
//! schedule, and clones of an optimizer, which share the memory, are at the same step.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::{Sgd, schedule::{Cosine, Linear, Schedule}};
//! let w = Weight::new(1.0_f64);
//! // ten steps of warm-up, then down to zero
//! let sgd = Sgd::new(Linear::new(0.01, 0.1, 10).then(10, Cosine::new(0.1, 90)));
//! for _ in 0..10 {
//!     w.train(&sgd).wait()?;
//! }
//! assert_eq!(sgd.learning_rate()?, 0.1);
//! # dl_core::Result::Ok(())
//! ```
//!
//! The definitions are those of PyTorch's `lr_scheduler`, except that these are functions of the
//! step, where PyTorch multiplies the previous learning rate. For a schedule in epochs, multiply
//! its step counts by the number of steps per epoch.
//!
//! | here | PyTorch |
//! |---|---|
//! | a number | none |
//! | [`StepDecay`], [`MultiStep`], [`Exponential`] | `StepLR`, `MultiStepLR`, `ExponentialLR` |
//! | [`Linear`], [`Polynomial`] | `LinearLR`, `PolynomialLR` |
//! | [`Cosine`], with [`restarts`](Cosine::restarts) | `CosineAnnealingLR`, `CosineAnnealingWarmRestarts` |
//! | [`OneCycle`] | `OneCycleLR` |
//! | [`Plateau`] | `ReduceLROnPlateau` |
//! | any `Fn(u64) -> f64` | `LambdaLR` |
//! | [`then`](Schedule::then), [`times`](Schedule::times) | `SequentialLR`, `ChainedScheduler` |

mod compose;
mod cosine;
mod decay;
mod one_cycle;
mod plateau;

pub use compose::{Then, Times};
pub use cosine::Cosine;
pub use decay::{Exponential, Linear, MultiStep, Polynomial, StepDecay};
pub use one_cycle::OneCycle;
pub use plateau::Plateau;

use crate::validate::{self, Allowed};
use dl_core::{Error, Notes, Result};
use std::sync::Arc;

/// A learning rate for every step.
///
/// A plain number is a schedule, and so is any function of the step number:
///
/// ```
/// use dl_optim::Sgd;
/// let sgd = Sgd::new(|step: u64| 0.1 / (1.0 + 0.01 * step as f64));
/// assert_eq!(sgd.learning_rate()?, 0.1);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a learning rate nor a schedule of learning rates",
    note = "expected an `f64` (`f64::from` converts an `f32`), one of `schedule`, or a function like `|step: u64| 0.1 / (step + 1) as f64`",
    note = "an optimizer is not given its weights: `loss.train(&optimizer)` steps all weights that the loss depends on"
)]
pub trait Schedule: Send + Sync {
    /// The learning rate of a step, counted from 0.
    ///
    /// ```
    /// use dl_optim::schedule::{Exponential, Schedule};
    /// assert_eq!(Exponential::new(0.8, 0.5).at(2)?, 0.2);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a setting is out of range.
    fn at(&self, step: u64) -> Result<f64>;

    /// The constant learning rate, if it is a plain number.
    #[doc(hidden)]
    fn fixed(&self) -> Option<f64> {
        None
    }

    /// Its mutable state, by key. It is saved with the state of the optimizer.
    ///
    /// ```
    /// use dl_optim::schedule::{Plateau, Schedule};
    /// assert!(0.1.notes().is_empty());
    /// assert!(!Plateau::new(0.1).notes().is_empty());
    /// ```
    fn notes(&self) -> Vec<(String, Notes)> {
        Vec::new()
    }

    /// This schedule before step `milestone`, and `next` from there on, with steps counted from the
    /// milestone.
    ///
    /// ```
    /// use dl_optim::schedule::{Exponential, Schedule};
    /// let schedule = 0.5.then(100, Exponential::new(0.4, 0.5));
    /// assert_eq!((schedule.at(99)?, schedule.at(100)?, schedule.at(101)?), (0.5, 0.4, 0.2));
    /// # dl_core::Result::Ok(())
    /// ```
    fn then<S: Schedule>(self, milestone: u64, next: S) -> Then<Self, S>
    where
        Self: Sized,
    {
        Then::new(self, milestone, next)
    }

    /// The product of both.
    ///
    /// ```
    /// use dl_optim::schedule::{Linear, Schedule, StepDecay};
    /// // warm-up as a factor: the steps of the decay are counted from the beginning
    /// let schedule = StepDecay::new(0.5, 30, 0.1).times(Linear::new(0.5, 1.0, 10));
    /// assert_eq!((schedule.at(5)?, schedule.at(20)?), (0.375, 0.5));
    /// # dl_core::Result::Ok(())
    /// ```
    fn times<S: Schedule>(self, factor: S) -> Times<Self, S>
    where
        Self: Sized,
    {
        Times::new(self, factor)
    }
}

impl Schedule for f64 {
    fn at(&self, _: u64) -> Result<f64> {
        Ok(*self)
    }

    fn fixed(&self) -> Option<f64> {
        Some(*self)
    }
}

#[diagnostic::do_not_recommend]
impl<F: Fn(u64) -> f64 + Send + Sync> Schedule for F {
    fn at(&self, step: u64) -> Result<f64> {
        Ok(self(step))
    }
}

impl<S: Schedule + ?Sized> Schedule for Arc<S> {
    fn at(&self, step: u64) -> Result<f64> {
        (**self).at(step)
    }

    fn fixed(&self) -> Option<f64> {
        (**self).fixed()
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        (**self).notes()
    }
}

/// An error if this setting of a schedule is out of range.
fn check(setting: &str, number: f64, allowed: Allowed) -> Result<()> {
    validate::check_of("schedule", setting, number, allowed)
}

/// An error if a number of steps is 0.
fn check_steps(what: &str, steps: u64) -> Result<()> {
    match steps {
        0 => Err(Error::invalid(format!("{what} of the schedule is 0; it has to be at least 1"))),
        _ => Ok(()),
    }
}
