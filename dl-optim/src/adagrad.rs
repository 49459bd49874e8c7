//! Adagrad: a learning rate for each number, divided by the root of the sum of its squared deltas.

use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Result, Slot, Term};

/// Adagrad.
///
/// The formulas are those of PyTorch's `Adagrad`: `s ← s + d²`, `w ← w − lr · d / (√s + eps)`,
/// where `s` starts with the [initial accumulator](Adagrad::initial_accumulator), 0 by default. The
/// slot `sum` holds `s` without the initial accumulator. A delta of 0 changes neither the number
/// nor its `s`. A sparse delta, which leaves out rows of a table, is therefore equivalent to a
/// dense one with zeros in these rows.
///
/// Duchi, Hazan & Singer, *Adaptive subgradient methods for online learning and stochastic
/// optimization*, 2011.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Adagrad;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Adagrad::new(0.5)).wait()?;
/// assert!((w.value() - 2.5).abs() < 1e-9);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Adagrad {
    base: Base,
    eps: f64,
    initial_accumulator: f64,
    lr_decay: f64,
}

optimizer!(Adagrad);

impl Adagrad {
    /// Adagrad with this learning rate or schedule; `eps` is 1e-10.
    ///
    /// ```
    /// assert_eq!(dl_optim::Adagrad::new(0.1).learning_rate()?, 0.1);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        Adagrad { base: Base::new(learning_rate).with_memory(), eps: 1e-10, initial_accumulator: 0.0, lr_decay: 0.0 }
    }

    /// The number that is added to the square root in the denominator.
    ///
    /// ```
    /// let adagrad = dl_optim::Adagrad::new(0.1).eps(1e-6);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// The initial value of the sums of squares.
    ///
    /// ```
    /// let adagrad = dl_optim::Adagrad::new(0.1).initial_accumulator(0.1);
    /// ```
    #[must_use]
    pub fn initial_accumulator(mut self, initial_accumulator: f64) -> Self {
        self.initial_accumulator = initial_accumulator;
        self
    }

    /// Divides the learning rate of step `t` of a weight by `1 + (t − 1) · lr_decay`.
    ///
    /// ```
    /// let adagrad = dl_optim::Adagrad::new(0.1).lr_decay(0.01);
    /// ```
    #[must_use]
    pub fn lr_decay(mut self, lr_decay: f64) -> Self {
        self.lr_decay = lr_decay;
        self
    }
}

impl Rule for Adagrad {
    type Constants = [f64; 3];

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::zeros("sum")] }
    }

    fn check(&self) -> Result<()> {
        check("eps", self.eps, Allowed::AtLeastZero)?;
        check("the decay of the learning rate", self.lr_decay, Allowed::FiniteFromZero)?;
        check("the initial accumulator", self.initial_accumulator, Allowed::AtLeastZero)
    }

    fn constants(&self, rate: f64, steps: u64) -> [f64; 3] {
        [rate / (1.0 + (steps - 1) as f64 * self.lr_decay), self.eps, self.initial_accumulator]
    }

    #[inline(always)]
    fn formula<A: Algebra>(
        &[rate, eps, initial]: &[f64; 3],
        w: &Term<A>,
        d: &Term<A>,
        state: &mut [Term<A>],
    ) -> Term<A> {
        // a slot starts with zeros: it holds the sum without the initial accumulator
        let [added] = state else { unreachable!("{SLOTS}") };
        *added = &*added + d * d;
        w - rate * d / ((initial + &*added).sqrt() + eps)
    }
}
