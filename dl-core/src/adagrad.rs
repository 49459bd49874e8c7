//! Adagrad: a learning rate for each number, smaller the more it has moved.

use crate::error::Result;
use crate::optimizer::{Chunk, Memory, Optimizer, check};
use crate::rules::Number;

/// Adagrad.
///
/// The formulas are PyTorch's: `s ← s + d²`, `w ← w − lr · d / (√s + eps)`, where `s` starts with the initial accumulator, which is 0 unless
/// it is [set](Adagrad::initial_accumulator). A number without a delta stays as it is, and so does its `s`: so a sparse delta, which leaves out
/// rows of a table, means the same as a dense one with zeros there.
///
/// Duchi, Hazan & Singer, *Adaptive subgradient methods for online learning and stochastic optimization*, 2011.
///
/// ```
/// use dl_core::{Adagrad, Differentiable, Weight};
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Adagrad::new(0.5)).wait()?;
/// assert!((w.value() - 2.5).abs() < 1e-9);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Adagrad {
    learning_rate: f64,
    eps: f64,
    initial_accumulator: f64,
    memory: Memory,
}

impl Adagrad {
    /// Adagrad with this learning rate; `eps` is 1e-10.
    ///
    /// ```
    /// assert_eq!(dl_core::Adagrad::new(0.1).learning_rate(), 0.1);
    /// ```
    pub fn new(learning_rate: f64) -> Self {
        Adagrad { learning_rate, eps: 1e-10, initial_accumulator: 0.0, memory: Memory::new() }
    }

    /// What is added to the root in the denominator.
    ///
    /// ```
    /// let adagrad = dl_core::Adagrad::new(0.1).eps(1e-6);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// What the sums of squares start with.
    ///
    /// ```
    /// let adagrad = dl_core::Adagrad::new(0.1).initial_accumulator(0.1);
    /// ```
    #[must_use]
    pub fn initial_accumulator(mut self, initial_accumulator: f64) -> Self {
        self.initial_accumulator = initial_accumulator;
        self
    }

    /// The same optimizer, with the same memory, at another learning rate: for schedules.
    ///
    /// ```
    /// let slower = dl_core::Adagrad::new(0.1).at_learning_rate(0.01);
    /// assert_eq!(slower.learning_rate(), 0.01);
    /// ```
    #[must_use]
    pub fn at_learning_rate(&self, learning_rate: f64) -> Self {
        Adagrad { learning_rate, ..self.clone() }
    }

    /// The learning rate.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    fn rule<A: Number>(&self, values: &mut [A], deltas: &[A], slots: &mut [&mut [A]]) {
        let [rate, eps, initial] = [self.learning_rate, self.eps, self.initial_accumulator].map(A::of);
        // a slot starts with zeros: it holds what has been added to the initial accumulator
        for ((w, &d), added) in values.iter_mut().zip(deltas).zip(slots[0].iter_mut()) {
            *added = *added + d * d;
            *w = *w - rate * d / ((initial + *added).sqrt() + eps);
        }
    }
}

impl Optimizer for Adagrad {
    fn slots(&self) -> usize {
        1
    }

    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }

    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        check("the learning rate", self.learning_rate, self.learning_rate.is_finite())?;
        check("eps", self.eps, self.eps >= 0.0)?;
        check("the initial accumulator", self.initial_accumulator, self.initial_accumulator >= 0.0)?;
        match chunk {
            Chunk::F32 { values, deltas, slots } => self.rule(values, deltas, slots),
            Chunk::F64 { values, deltas, slots } => self.rule(values, deltas, slots),
        }
        Ok(())
    }
}
