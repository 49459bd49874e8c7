//! The common part of the optimizers: [`Base`], a learning rate and a memory, and [`Rule`], an
//! update formula that is generic over the precision.

use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Error, LazyChunk, Memory, Notes, Number, Result, Slot, Step, Term};
use std::fmt;
use std::sync::Arc;

/// The learning rate and the memory (state of the weights, step count) of an optimizer.
#[derive(Clone, Debug)]
pub(super) struct Base {
    rate: Rate,
    memory: Option<Memory>,
}

/// A constant learning rate is stored as a number: it needs no virtual call and no memory.
#[derive(Clone)]
enum Rate {
    Fixed(f64),
    Scheduled(Arc<dyn Schedule>),
}

impl Base {
    /// Has no memory, unless the learning rate depends on the step count.
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

    /// If there is a schedule: the same with the learning rate of this step.
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

    pub(crate) fn notes(&self) -> Vec<(String, Notes)> {
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

/// The notes with `prefix.` before each key.
pub(crate) fn within(what: &str, numbers: Vec<(String, Notes)>) -> Vec<(String, Notes)> {
    numbers.into_iter().map(|(key, numbers)| (format!("{what}.{key}"), numbers)).collect()
}

/// The error of `step` without a preceding `begin`.
#[cold]
pub(super) fn not_begun(why: &str) -> Error {
    Error::invalid(format!(
        "an optimizer that {why} cannot step without `begin`: an optimizer that wraps it must forward `begin` and `for_weight`"
    ))
}

/// An update formula, for one weight at a time. It is written once: for the numbers of the host,
/// and for those of a device, which records it.
pub(super) trait Rule {
    /// What the formula reads besides the numbers of the weight: constants of a step.
    type Constants;

    /// The state buffers of a weight.
    fn slots(&self) -> &'static [Slot];

    /// An error if a setting is out of range.
    fn check(&self) -> Result<()>;

    /// Whether the [`formula`](Rule::formula) computes `w − rate · delta` and nothing else.
    fn is_descent(&self) -> bool {
        false
    }

    /// Whether it has a decoupled weight decay.
    fn decays_weights(&self) -> bool {
        false
    }

    /// The constants of step number `steps` of a weight, counted from 1.
    fn constants(&self, rate: f64, steps: u64) -> Self::Constants;

    /// The new value of an element, from its value and its delta. Replaces the elements of the
    /// state, one for each of [`slots`](Rule::slots).
    fn formula<A: Algebra>(constants: &Self::Constants, w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A>;
}

/// Applies the formula of a rule to each element of a chunk.
pub(super) fn apply<R: Rule, A: Number>(
    constants: &R::Constants,
    values: &mut [A],
    deltas: &[A],
    slots: &mut [&mut [A]],
) {
    match slots {
        [] => apply_with::<R, A, 0>(constants, values, deltas, []),
        [a] => apply_with::<R, A, 1>(constants, values, deltas, [a]),
        [a, b] => apply_with::<R, A, 2>(constants, values, deltas, [a, b]),
        [a, b, c] => apply_with::<R, A, 3>(constants, values, deltas, [a, b, c]),
        _ => unreachable!("{SLOTS}"),
    }
}

/// Not inlined: the compiler then knows that the slices do not overlap.
#[inline(never)]
fn apply_with<R: Rule, A: Number, const N: usize>(
    constants: &R::Constants,
    values: &mut [A],
    deltas: &[A],
    slots: [&mut [A]; N],
) {
    let deltas = &deltas[..values.len()];
    let slots = slots.map(|slot| &mut slot[..values.len()]);
    for at in 0..values.len() {
        let mut state: [Term<A>; N] = std::array::from_fn(|slot| Term(slots[slot][at]));
        values[at] = R::formula(constants, &Term(values[at]), &Term(deltas[at]), &mut state).0;
        for slot in 0..N {
            slots[slot][at] = state[slot].0;
        }
    }
}

/// Records the formula of a rule.
pub(super) fn record<R: Rule>(constants: &R::Constants, chunk: &mut LazyChunk) {
    chunk.value = R::formula(constants, &chunk.value, &chunk.delta, &mut chunk.slots);
}

/// Implements `Optimizer` for a [`Rule`] with a field `base: Base`.
macro_rules! optimizer {
    ($Rule:ident) => {
        impl $Rule {
            /// The same optimizer, with the same memory, at another learning rate or with another
            /// schedule.
            ///
            /// ```
            #[doc = concat!("let optimizer = dl_optim::", stringify!($Rule), "::new(0.1);")]
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
            #[doc = concat!("let optimizer = dl_optim::", stringify!($Rule), "::new(|step: u64| 0.1 / (step + 1) as f64);")]
            /// assert_eq!(optimizer.learning_rate()?, 0.1);
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of the schedule.
            pub fn learning_rate(&self) -> dl_core::Result<f64> {
                self.base.next()
            }
        }

        impl dl_core::Optimizer for $Rule {
            fn slots(&self) -> &[dl_core::Slot] {
                $crate::rule::Rule::slots(self)
            }

            fn memory(&self) -> Option<&dl_core::Memory> {
                self.base.memory()
            }

            fn begin<'o>(
                &'o self,
                step: &dl_core::Step<'_>,
            ) -> dl_core::Result<Option<Box<dyn dl_core::Optimizer + 'o>>> {
                Ok(self.base.begin(step)?.map(|base| Box::new($Rule { base, ..self.clone() }) as _))
            }

            fn step(&self, chunk: dl_core::Chunk<'_>, steps: u64) -> dl_core::Result<()> {
                use $crate::rule::{Rule, apply};
                let rate = self.base.rate()?;
                self.check()?;
                let constants = self.constants(rate, steps);
                dl_core::in_numbers!(chunk, |values, deltas, slots| {
                    apply::<Self, _>(&constants, values, deltas, slots)
                });
                Ok(())
            }

            fn step_lazy(&self, chunk: &mut dl_core::LazyChunk, steps: u64) -> dl_core::Result<()> {
                use $crate::rule::Rule;
                let rate = self.base.rate()?;
                self.check()?;
                $crate::rule::record::<Self>(&self.constants(rate, steps), chunk);
                Ok(())
            }

            fn descent(&self) -> Option<dl_core::Result<f64>> {
                use $crate::rule::Rule;
                self.is_descent().then(|| self.check().and_then(|()| self.base.rate()))
            }

            fn decays_weights(&self) -> bool {
                $crate::rule::Rule::decays_weights(self)
            }

            fn notes(&self) -> Vec<(String, dl_core::Notes)> {
                self.base.notes()
            }

            fn kind(&self) -> String {
                stringify!($Rule).to_owned()
            }
        }
    };
}
pub(super) use optimizer;

/// The message of a violated invariant: a chunk has one buffer per slot of the rule.
pub(super) const SLOTS: &str = "a chunk has one buffer per slot of the rule";
