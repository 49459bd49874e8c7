//! Lion: steps along the sign of a momentum.

use crate::adam::check_betas;
use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::transform::sign;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Result, Slot, Term};

/// Lion: every number moves by the same amount, in the direction of a momentum.
///
/// The formulas are those of the paper: `c = beta1 · m + (1 − beta1) · d`,
/// `w ← w − lr · (sign(c) + weight_decay · w)`, `m ← beta2 · m + (1 − beta2) · d`. The sign of 0 is 0.
/// The weight decay is decoupled, and 0 unless it is [set](Lion::weight_decay). The paper
/// recommends a learning rate of a third to a tenth of [`AdamW`](crate::AdamW)'s, and a weight
/// decay that is larger by the same factor. On a sparse delta it is *lazy*: rows that the delta
/// leaves out, and their `m`, are not changed.
///
/// Chen et al., *Symbolic discovery of optimization algorithms*, 2023, algorithm 2.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Lion;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Lion::new(0.5)).wait()?;
/// assert_eq!(w.value(), 2.5);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Lion {
    base: Base,
    betas: [f64; 2],
    weight_decay: f64,
}

optimizer!(Lion);

impl Lion {
    /// Lion with this learning rate or schedule; the betas are 0.9 and 0.99.
    ///
    /// ```
    /// assert_eq!(dl_optim::Lion::new(1e-4).learning_rate()?, 1e-4);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        Lion { base: Base::new(learning_rate).with_memory(), betas: [0.9, 0.99], weight_decay: 0.0 }
    }

    /// The weight of the momentum in the direction of a step, and the decay rate of the momentum.
    ///
    /// ```
    /// let lion = dl_optim::Lion::new(1e-4).betas(0.95, 0.98);
    /// ```
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        self.betas = [beta1, beta2];
        self
    }

    /// The decoupled weight decay: a step subtracts `lr · weight_decay · w` from a weight.
    ///
    /// It must be set before the optimizer is wrapped: on `Lion::new(1e-4).clip_norm(1.0)`,
    /// [`weight_decay`](crate::OptimizerExt::weight_decay) is an L2 penalty, and every step with
    /// both is an error.
    ///
    /// ```
    /// let lion = dl_optim::Lion::new(1e-4).weight_decay(1.0);
    /// ```
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }
}

impl Rule for Lion {
    type Constants = [f64; 4];

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::zeros("exp_avg")] }
    }

    fn check(&self) -> Result<()> {
        check_betas(self.betas)?;
        check("the weight decay", self.weight_decay, Allowed::FiniteFromZero)
    }

    fn decays_weights(&self) -> bool {
        self.weight_decay != 0.0
    }

    fn constants(&self, rate: f64, _: u64) -> [f64; 4] {
        [rate, self.betas[0], self.betas[1], self.weight_decay]
    }

    #[inline(always)]
    fn formula<A: Algebra>(
        &[rate, beta1, beta2, decay]: &[f64; 4],
        w: &Term<A>,
        d: &Term<A>,
        state: &mut [Term<A>],
    ) -> Term<A> {
        let [m] = state else { unreachable!("{SLOTS}") };
        let direction = sign(&(beta1 * &*m + (1.0 - beta1) * d));
        *m = beta2 * &*m + (1.0 - beta2) * d;
        w - rate * (direction + decay * w)
    }
}
