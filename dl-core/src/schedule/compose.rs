//! Schedules made of others.

use super::Schedule;
use crate::error::Result;
use crate::optimizer::Numbers;

/// One schedule after another: see [`Schedule::then`].
#[derive(Clone, Debug)]
pub struct Then<A, B> {
    first: A,
    milestone: u64,
    next: B,
}

/// The product of two schedules: see [`Schedule::times`].
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

    fn numbers(&self) -> Vec<(String, Numbers)> {
        both(&self.first, &self.next)
    }
}

impl<A: Schedule, B: Schedule> Schedule for Times<A, B> {
    fn at(&self, step: u64) -> Result<f64> {
        Ok(self.0.at(step)? * self.1.at(step)?)
    }

    fn numbers(&self) -> Vec<(String, Numbers)> {
        both(&self.0, &self.1)
    }
}

fn both(first: &impl Schedule, second: &impl Schedule) -> Vec<(String, Numbers)> {
    let named = |which: &str, numbers: Vec<(String, Numbers)>| {
        numbers.into_iter().map(|(key, numbers)| (format!("{which}.{key}"), numbers)).collect::<Vec<_>>()
    };
    [named("first", first.numbers()), named("second", second.numbers())].concat()
}
