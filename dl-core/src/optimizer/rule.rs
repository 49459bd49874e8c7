//! What the rules have in common: a learning rate, a memory, and one formula for both precisions.

use super::{Allowed, Memory, Slot, Step, check};
use crate::error::{Error, Result};
use crate::rules::Number;
use crate::schedule::Schedule;
use std::fmt;
use std::sync::Arc;

/// The learning rate and the memory of an optimizer.
#[derive(Clone, Debug)]
pub(super) struct Base {
    rate: Rate,
    memory: Option<Memory>,
}

/// A plain number costs nothing more than it did without schedules.
#[derive(Clone)]
enum Rate {
    Fixed(f64),
    Scheduled(Arc<dyn Schedule>),
}

impl Base {
    /// Without a memory, unless steps have to be counted.
    pub(super) fn new(learning_rate: impl Schedule + 'static) -> Self {
        match learning_rate.fixed() {
            Some(rate) => Base { rate: Rate::Fixed(rate), memory: None },
            None => Base { rate: Rate::Scheduled(Arc::new(learning_rate)), memory: Some(Memory::new()) },
        }
    }

    pub(super) fn with_memory(mut self) -> Self {
        self.memory.get_or_insert_default();
        self
    }

    pub(super) fn at_learning_rate(&self, learning_rate: impl Schedule + 'static) -> Self {
        let new = Base::new(learning_rate);
        Base { rate: new.rate, memory: self.memory.clone().or(new.memory) }
    }

    pub(super) fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// The learning rate of the next step.
    pub(super) fn next(&self) -> Result<f64> {
        match &self.rate {
            Rate::Fixed(rate) => Ok(*rate),
            Rate::Scheduled(schedule) => schedule.at(self.memory.as_ref().map_or(0, Memory::steps)),
        }
    }

    /// The same, at the learning rate of this step, if that changes from step to step.
    pub(super) fn begin(&self, step: &Step<'_>) -> Result<Option<Self>> {
        match &self.rate {
            Rate::Fixed(_) => Ok(None),
            Rate::Scheduled(schedule) => {
                Ok(Some(Base { rate: Rate::Fixed(schedule.at(step.steps())?), memory: self.memory.clone() }))
            }
        }
    }

    /// The learning rate of this step.
    #[inline]
    pub(super) fn rate(&self) -> Result<f64> {
        match self.rate {
            Rate::Fixed(rate) => check("the learning rate", rate, Allowed::Finite).map(|()| rate),
            Rate::Scheduled(_) => Err(not_begun("has a schedule for its learning rate")),
        }
    }

    pub(super) fn notes(&self) -> Vec<(String, super::Notes)> {
        match &self.rate {
            Rate::Fixed(_) => Vec::new(),
            Rate::Scheduled(schedule) => within("learning_rate", schedule.notes()),
        }
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Fixed(rate) => rate.fmt(f),
            Rate::Scheduled(_) => f.write_str("scheduled"),
        }
    }
}

/// Notes with keys that say what they belong to.
pub(crate) fn within(what: &str, numbers: Vec<(String, super::Notes)>) -> Vec<(String, super::Notes)> {
    numbers.into_iter().map(|(key, numbers)| (format!("{what}.{key}"), numbers)).collect()
}

/// Why an optimizer cannot take a step that it has not seen the beginning of.
#[cold]
pub(super) fn not_begun(why: &str) -> Error {
    Error::invalid(format!(
        "an optimizer that {why} was asked for a step that it had not begun: one around it has to hand on `begin` and `for_weight`"
    ))
}

/// A formula.
pub(super) trait Rule {
    fn slots(&self) -> &'static [Slot];

    /// Whether the settings make sense.
    fn check(&self) -> Result<()>;

    /// Whether all that [`apply`](Rule::apply) does is `w − rate · delta`.
    fn is_descent(&self) -> bool {
        false
    }

    /// Whether it has a decoupled weight decay.
    fn decays_weights(&self) -> bool {
        false
    }

    /// Step number `steps` of some numbers. There are as many buffers as `slots` says.
    fn apply<A: Number>(&self, rate: f64, numbers: Run<'_, '_, A>, steps: u64);
}

/// A chunk of one precision.
pub(super) struct Run<'a, 's, A> {
    pub(super) values: &'a mut [A],
    pub(super) deltas: &'a [A],
    pub(super) slots: &'a mut [&'s mut [A]],
}

/// Makes an optimizer of a [`Rule`] that has a [`Base`].
macro_rules! optimizer {
    ($Rule:ident) => {
        impl $Rule {
            /// The same optimizer, with the same memory, at another learning rate or with another
            /// schedule.
            ///
            /// ```
            #[doc = concat!("let optimizer = dl_core::", stringify!($Rule), "::new(0.1);")]
            /// assert_eq!(optimizer.at_learning_rate(0.01).learning_rate()?, 0.01);
            /// # dl_core::Result::Ok(())
            /// ```
            #[must_use]
            pub fn at_learning_rate(&self, learning_rate: impl $crate::schedule::Schedule + 'static) -> Self {
                $Rule { base: self.base.at_learning_rate(learning_rate), ..self.clone() }
            }

            /// The learning rate of the next step.
            ///
            /// ```
            #[doc = concat!("let optimizer = dl_core::", stringify!($Rule), "::new(|step: u64| 0.1 / (step + 1) as f64);")]
            /// assert_eq!(optimizer.learning_rate()?, 0.1);
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of the schedule.
            pub fn learning_rate(&self) -> $crate::error::Result<f64> {
                self.base.next()
            }
        }

        impl $crate::optimizer::Optimizer for $Rule {
            fn slots(&self) -> &[$crate::optimizer::Slot] {
                $crate::optimizer::rule::Rule::slots(self)
            }

            fn memory(&self) -> Option<&$crate::optimizer::Memory> {
                self.base.memory()
            }

            fn begin<'o>(
                &'o self,
                step: &$crate::optimizer::Step<'_>,
            ) -> $crate::error::Result<Option<Box<dyn $crate::optimizer::Optimizer + 'o>>> {
                Ok(self.base.begin(step)?.map(|base| Box::new($Rule { base, ..self.clone() }) as _))
            }

            fn step(&self, chunk: $crate::optimizer::Chunk<'_>, steps: u64) -> $crate::error::Result<()> {
                use $crate::optimizer::rule::{Rule, Run};
                let rate = self.base.rate()?;
                self.check()?;
                $crate::optimizer::in_numbers!(chunk, |values, deltas, slots| {
                    self.apply(rate, Run { values, deltas, slots }, steps)
                });
                Ok(())
            }

            fn descent(&self) -> Option<$crate::error::Result<f64>> {
                use $crate::optimizer::rule::Rule;
                self.is_descent().then(|| self.check().and_then(|()| self.base.rate()))
            }

            fn decays_weights(&self) -> bool {
                $crate::optimizer::rule::Rule::decays_weights(self)
            }

            fn notes(&self) -> Vec<(String, $crate::optimizer::Notes)> {
                self.base.notes()
            }

            fn kind(&self) -> String {
                stringify!($Rule).to_owned()
            }
        }
    };
}
pub(super) use optimizer;

/// The error of a rule that got other slots than it had asked for. The runtime checks that.
pub(super) const SLOTS: &str = "as many slots as were asked for";
