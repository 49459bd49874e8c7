//! NAdam: Adam with Nesterov's momentum.

use crate::adam::{check_betas, check_decay, corrections};
use crate::rule::{Base, Rule, Run, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Number, Result, Slot};

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

impl Rule for NAdam {
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

    fn apply<A: Number>(&self, rate: f64, Run { values, deltas, slots }: Run<'_, '_, A>, steps: u64) {
        let [means, squares] = slots else { unreachable!("{SLOTS}") };
        let decayed = A::of(1.0 - rate * self.weight_decay);
        let kept = self.betas.map(A::of);
        let new = self.betas.map(|beta| A::of(1.0 - beta));
        let [now, next, product] = [self.momentum(steps), self.momentum(steps + 1), self.product(steps)];
        let of_delta = A::of(rate * (1.0 - now) / (1.0 - product));
        let of_mean = A::of(rate * next / (1.0 - product * next));
        let (correction, eps) = (A::of(corrections(self.betas, steps)[1]), A::of(self.eps));
        for (((w, &d), m), v) in values.iter_mut().zip(deltas).zip(means.iter_mut()).zip(squares.iter_mut()) {
            *m = kept[0] * *m + new[0] * d;
            *v = kept[1] * *v + new[1] * d * d;
            *w = *w * decayed - (of_delta * d + of_mean * *m) / ((*v / correction).sqrt() + eps);
        }
    }
}
