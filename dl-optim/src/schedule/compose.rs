//! Combinations of schedules.

use crate::schedule::Schedule;
use dl_core::{Notes, Result};

/// One schedule after another: see [`Schedule::then`].
///
/// ```
/// use dl_optim::schedule::{Linear, Schedule};
/// let warm_up = Linear::new(0.25, 0.5, 10).then(10, 0.5);
/// assert_eq!((warm_up.at(5)?, warm_up.at(50)?), (0.375, 0.5));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Then<A, B> {
    first: A,
    milestone: u64,
    next: B,
}

/// The product of two schedules: see [`Schedule::times`].
///
/// ```
/// use dl_optim::schedule::{Exponential, Schedule};
/// assert_eq!(0.5.times(Exponential::new(1.0, 0.5)).at(2)?, 0.125);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Times<A, B>(A, B);

impl<A, B> Then<A, B> {
    pub(super) fn new(first: A, milestone: u64, next: B) -> Self {
        Then { first, milestone, next }
    }
}

impl<A, B> Times<A, B> {
    pub(super) fn new(first: A, factor: B) -> Self {
        Times(first, factor)
    }
}

impl<A: Schedule, B: Schedule> Schedule for Then<A, B> {
    fn at(&self, step: u64) -> Result<f64> {
        match step.checked_sub(self.milestone) {
            None => self.first.at(step),
            Some(step) => self.next.at(step),
        }
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        combined_notes(&self.first, &self.next)
    }
}

impl<A: Schedule, B: Schedule> Schedule for Times<A, B> {
    fn at(&self, step: u64) -> Result<f64> {
        Ok(self.0.at(step)? * self.1.at(step)?)
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        combined_notes(&self.0, &self.1)
    }
}

/// The notes of both schedules, with `first.` or `second.` before each key.
fn combined_notes(first: &impl Schedule, second: &impl Schedule) -> Vec<(String, Notes)> {
    let named = |which: &str, numbers: Vec<(String, Notes)>| {
        numbers.into_iter().map(|(key, numbers)| (format!("{which}.{key}"), numbers)).collect::<Vec<_>>()
    };
    [named("first", first.notes()), named("second", second.notes())].concat()
}
