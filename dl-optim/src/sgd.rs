//! Stochastic gradient descent.

use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Error, Result, Slot, Term};

/// Stochastic gradient descent, plain or with momentum.
///
/// The formulas are those of PyTorch's `SGD`: without momentum `w ← w − lr · d`; with momentum
/// `v ← momentum · v + (1 − dampening) · d`, in the first step of a weight `v ← d`, and
/// `w ← w − lr · v`, or, by Nesterov, `w ← w − lr · (d + momentum · v)`.
///
/// On a sparse delta, as that of an embedding, momentum is *lazy*: rows that the delta leaves out,
/// and their `v`, are not changed. The first step is that of the whole weight, not of a row.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Sgd::new(0.5)).wait()?;
/// assert_eq!(w.value(), 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Sgd {
    /// Has a memory if there is momentum.
    base: Base,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
}

optimizer!(Sgd);

impl Sgd {
    /// Plain gradient descent with this learning rate or schedule.
    ///
    /// ```
    /// assert_eq!(dl_optim::Sgd::new(0.1).learning_rate()?, 0.1);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        Sgd { base: Base::new(learning_rate), momentum: 0.0, dampening: 0.0, nesterov: false }
    }

    /// Adds momentum.
    ///
    /// ```
    /// let sgd = dl_optim::Sgd::new(0.1).momentum(0.9);
    /// ```
    #[must_use]
    pub fn momentum(self, momentum: f64) -> Self {
        let base = if momentum == 0.0 { self.base } else { self.base.with_memory() };
        Sgd { base, momentum, ..self }
    }

    /// The part of a new delta that is not added to the momentum.
    ///
    /// ```
    /// let sgd = dl_optim::Sgd::new(0.1).momentum(0.9).dampening(0.9); // the momentum is a mean
    /// ```
    #[must_use]
    pub fn dampening(mut self, dampening: f64) -> Self {
        self.dampening = dampening;
        self
    }

    /// Nesterov's momentum, which needs a momentum without dampening.
    ///
    /// ```
    /// let sgd = dl_optim::Sgd::new(0.1).momentum(0.9).nesterov();
    /// ```
    #[must_use]
    pub fn nesterov(mut self) -> Self {
        self.nesterov = true;
        self
    }

    #[cold]
    fn check_momentum(&self) -> Result<()> {
        check("the momentum", self.momentum, Allowed::Finite)?;
        check("the dampening", self.dampening, Allowed::Finite)?;
        if self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0) {
            return Err(Error::invalid("Nesterov's momentum needs a momentum, and no dampening"));
        }
        Ok(())
    }
}

/// The constants of a step.
pub(crate) struct OfStep {
    rate: f64,
    momentum: f64,
    /// The factor of a new delta in the momentum.
    new: f64,
    nesterov: bool,
}

impl Rule for Sgd {
    type Constants = OfStep;

    #[inline]
    fn slots(&self) -> &'static [Slot] {
        if self.momentum == 0.0 { &[] } else { const { &[Slot::zeros("momentum_buffer")] } }
    }

    #[inline]
    fn check(&self) -> Result<()> {
        if self.momentum == 0.0 && !self.nesterov { Ok(()) } else { self.check_momentum() }
    }

    fn is_descent(&self) -> bool {
        self.momentum == 0.0
    }

    fn constants(&self, rate: f64, steps: u64) -> OfStep {
        let new = if steps == 1 { 1.0 } else { 1.0 - self.dampening };
        OfStep { rate, momentum: self.momentum, new, nesterov: self.nesterov }
    }

    #[inline(always)]
    fn formula<A: Algebra>(of_step: &OfStep, w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A> {
        let &OfStep { rate, momentum, new, nesterov } = of_step;
        match state {
            [] => w - rate * d,
            [v] => {
                *v = momentum * &*v + new * d;
                w - rate * if nesterov { d + momentum * &*v } else { v.clone() }
            }
            _ => unreachable!("{SLOTS}"),
        }
    }
}
