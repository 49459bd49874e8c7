//! NAdam: Adam with Nesterov's momentum.

use crate::adam::{check_betas, check_decay, corrections, means};
use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Result, Slot, Term};

/// NAdam: Adam with Nesterov's momentum.
///
/// The formulas are those of PyTorch's `NAdam`. In step `t` of a weight, `m` and `v` as in
/// [`Adam`](crate::Adam), and
/// `w ← w − lr · ((1 − μₜ) / (1 − Πₜ) · d + μₜ₊₁ / (1 − Πₜ₊₁) · m) / (√v̂ + eps)` with
/// `μₜ = beta1 · (1 − 0.96^(t · momentum_decay) / 2)` and `Πₜ = μ₁ · … · μₜ`. On a sparse delta it
/// is *lazy*, as Adam is.
///
/// Dozat, *Incorporating Nesterov momentum into Adam*, 2016.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::NAdam;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&NAdam::new(0.5)).wait()?;
/// assert!(w.value() < 2.6);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct NAdam {
    base: Base,
    betas: [f64; 2],
    eps: f64,
    momentum_decay: f64,
    weight_decay: f64,
}

optimizer!(NAdam);

impl NAdam {
    /// NAdam with this learning rate or schedule; the betas are 0.9 and 0.999, `eps` is 1e-8, the
    /// momentum decay 0.004.
    ///
    /// ```
    /// assert_eq!(dl_optim::NAdam::new(0.002).learning_rate()?, 0.002);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        let base = Base::new(learning_rate).with_memory();
        NAdam { base, betas: [0.9, 0.999], eps: 1e-8, momentum_decay: 0.004, weight_decay: 0.0 }
    }

    /// The decay rates of the running means of the deltas and of their squares.
    ///
    /// ```
    /// let nadam = dl_optim::NAdam::new(0.002).betas(0.9, 0.98);
    /// ```
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        self.betas = [beta1, beta2];
        self
    }

    /// The number that is added to the square root in the denominator.
    ///
    /// ```
    /// let nadam = dl_optim::NAdam::new(0.002).eps(1e-6);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// How fast the momentum `μ` rises from about `beta1 / 2` to `beta1`.
    ///
    /// ```
    /// let nadam = dl_optim::NAdam::new(0.002).momentum_decay(0.01);
    /// ```
    #[must_use]
    pub fn momentum_decay(mut self, momentum_decay: f64) -> Self {
        self.momentum_decay = momentum_decay;
        self
    }

    /// A weight decay that bypasses the running means, as in [`AdamW`](crate::AdamW): PyTorch's
    /// `decoupled_weight_decay`.
    ///
    /// ```
    /// let nadam = dl_optim::NAdam::new(0.002).decoupled_weight_decay(0.01);
    /// ```
    #[must_use]
    pub fn decoupled_weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }

    /// `μ` of a step.
    fn momentum(&self, step: u64) -> f64 {
        self.betas[0] * (1.0 - 0.5 * libm::pow(0.96, step as f64 * self.momentum_decay))
    }

    /// `Π`, the product of `μ` over the first steps. Once it is too small to change a difference
    /// from 1, the remaining factors are left out.
    fn product(&self, steps: u64) -> f64 {
        let mut product = 1.0;
        for step in 1..=steps {
            product *= self.momentum(step);
            if product < f64::EPSILON / 8.0 {
                break;
            }
        }
        product
    }
}

/// The constants of a step.
pub(crate) struct OfStep {
    betas: [f64; 2],
    /// What is left of a weight that decays.
    decayed: f64,
    of_delta: f64,
    of_mean: f64,
    correction: f64,
    eps: f64,
}

impl Rule for NAdam {
    type Constants = OfStep;

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::zeros("exp_avg"), Slot::zeros("exp_avg_sq")] }
    }

    fn check(&self) -> Result<()> {
        check_betas(self.betas)?;
        check("eps", self.eps, Allowed::AtLeastZero)?;
        check_decay(self.weight_decay)?;
        check("the momentum decay", self.momentum_decay, Allowed::FiniteFromZero)
    }

    fn decays_weights(&self) -> bool {
        self.weight_decay != 0.0
    }

    fn constants(&self, rate: f64, steps: u64) -> OfStep {
        let [now, next, product] = [self.momentum(steps), self.momentum(steps + 1), self.product(steps)];
        OfStep {
            betas: self.betas,
            decayed: 1.0 - rate * self.weight_decay,
            of_delta: rate * (1.0 - now) / (1.0 - product),
            of_mean: rate * next / (1.0 - product * next),
            correction: corrections(self.betas, steps)[1],
            eps: self.eps,
        }
    }

    #[inline(always)]
    fn formula<A: Algebra>(of_step: &OfStep, w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A> {
        let &OfStep { betas, decayed, of_delta, of_mean, correction, eps } = of_step;
        let [m, v] = state else { unreachable!("{SLOTS}") };
        means(betas, d, m, v);
        w * decayed - (of_delta * d + of_mean * &*m) / ((&*v / correction).sqrt() + eps)
    }
}
