//! Stochastic gradient descent.

use crate::error::Result;
use crate::optimizer::{Chunk, Memory, Optimizer, check};
use crate::rules::Number;

/// Stochastic gradient descent, plain or with momentum.
///
/// The formulas are PyTorch's: without momentum `w ← w − lr · d`; with momentum `v ← momentum · v + d`, `w ← w − lr · v`. On a sparse delta, as
/// that of an embedding, momentum is *lazy*: rows that the delta leaves out, and their `v`, stay as they are.
///
/// ```
/// use dl_core::{Differentiable, Sgd, Weight};
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Sgd::new(0.5)).wait()?;
/// assert_eq!(w.value(), 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Sgd {
    learning_rate: f64,
    momentum: f64,
    /// Present with momentum.
    memory: Option<Memory>,
}

impl Sgd {
    /// Plain gradient descent with this learning rate.
    ///
    /// ```
    /// assert_eq!(dl_core::Sgd::new(0.1).learning_rate(), 0.1);
    /// ```
    pub fn new(learning_rate: f64) -> Self {
        Sgd { learning_rate, momentum: 0.0, memory: None }
    }

    /// Adds momentum.
    ///
    /// ```
    /// let sgd = dl_core::Sgd::new(0.1).momentum(0.9);
    /// ```
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self.memory.get_or_insert_default();
        self
    }

    /// The same optimizer, with the same memory, at another learning rate: for schedules.
    ///
    /// ```
    /// let sgd = dl_core::Sgd::new(0.1).momentum(0.9);
    /// let slower = sgd.at_learning_rate(0.01);
    /// assert_eq!(slower.learning_rate(), 0.01);
    /// ```
    #[must_use]
    pub fn at_learning_rate(&self, learning_rate: f64) -> Self {
        Sgd { learning_rate, ..self.clone() }
    }

    /// The learning rate.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    fn rule<A: Number>(&self, values: &mut [A], deltas: &[A], slots: &mut [&mut [A]]) {
        let (rate, momentum) = (A::of(self.learning_rate), A::of(self.momentum));
        match slots {
            [] => {
                for (w, &d) in values.iter_mut().zip(deltas) {
                    *w = *w - rate * d;
                }
            }
            [velocity, ..] => {
                for ((w, &d), v) in values.iter_mut().zip(deltas).zip(velocity.iter_mut()) {
                    *v = momentum * *v + d;
                    *w = *w - rate * *v;
                }
            }
        }
    }
}

impl Optimizer for Sgd {
    fn slots(&self) -> usize {
        usize::from(self.momentum != 0.0)
    }

    fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref().filter(|_| self.momentum != 0.0)
    }

    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        check("the learning rate", self.learning_rate, self.learning_rate.is_finite())?;
        check("the momentum", self.momentum, self.momentum.is_finite())?;
        match chunk {
            Chunk::F32 { values, deltas, slots } => self.rule(values, deltas, slots),
            Chunk::F64 { values, deltas, slots } => self.rule(values, deltas, slots),
        }
        Ok(())
    }
}
