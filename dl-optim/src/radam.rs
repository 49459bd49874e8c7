//! RAdam: Adam with a rectified adaptive learning rate.

use crate::adam::{check_betas, check_decay, corrections, means};
use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Result, Slot, Term};

/// RAdam: Adam with first steps that, while there are too few squares to estimate their variance,
/// are plain momentum.
///
/// The formulas are those of PyTorch's `RAdam`. In step `t` of a weight, `m`, `v` and `m̂` as in
/// [`Adam`](crate::Adam); with `ρ∞ = 2 / (1 − beta2) − 1` and `ρ = ρ∞ − 2 t beta2ᵗ / (1 − beta2ᵗ)`,
/// if `ρ > 5` then `w ← w − lr · m̂ · r · √(1 − beta2ᵗ) / (√v + eps)` with
/// `r² = (ρ − 4)(ρ − 2) ρ∞ / ((ρ∞ − 4)(ρ∞ − 2) ρ)`, else `w ← w − lr · m̂`. On a sparse delta it is
/// *lazy*, as Adam is.
///
/// Liu et al., *On the variance of the adaptive learning rate and beyond*, 2020.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::RAdam;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&RAdam::new(0.5)).wait()?;
/// assert!((w.value() - 2.0).abs() < 1e-12); // the first step is plain
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct RAdam {
    base: Base,
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
}

optimizer!(RAdam);

impl RAdam {
    /// RAdam with this learning rate or schedule; the betas are 0.9 and 0.999, `eps` is 1e-8.
    ///
    /// ```
    /// assert_eq!(dl_optim::RAdam::new(0.001).learning_rate()?, 0.001);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        RAdam { base: Base::new(learning_rate).with_memory(), betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0 }
    }

    /// The decay rates of the running means of the deltas and of their squares.
    ///
    /// ```
    /// let radam = dl_optim::RAdam::new(0.001).betas(0.9, 0.98);
    /// ```
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        self.betas = [beta1, beta2];
        self
    }

    /// The number that is added to the square root in the denominator.
    ///
    /// ```
    /// let radam = dl_optim::RAdam::new(0.001).eps(1e-6);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// A weight decay that bypasses the running means, as in [`AdamW`](crate::AdamW): PyTorch's
    /// `decoupled_weight_decay`.
    ///
    /// ```
    /// let radam = dl_optim::RAdam::new(0.002).decoupled_weight_decay(0.01);
    /// ```
    #[must_use]
    pub fn decoupled_weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }

    /// The factor `r · √(1 − beta2ᵗ)`; none while the variance of the squares cannot be estimated.
    fn rectification(&self, steps: u64) -> Option<f64> {
        let [_, beta2] = self.betas;
        let (t, [_, correction]) = (steps as f64, corrections(self.betas, steps));
        let limit = 2.0 / (1.0 - beta2) - 1.0;
        let length = limit - 2.0 * t * libm::pow(beta2, t) / correction;
        let known = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length);
        (length > 5.0).then(|| (known * correction).sqrt())
    }
}

/// The constants of a step.
pub(crate) struct OfStep {
    betas: [f64; 2],
    /// What is left of a weight that decays.
    decayed: f64,
    rate: f64,
    rectification: Option<f64>,
    eps: f64,
}

impl Rule for RAdam {
    type Constants = OfStep;

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::zeros("exp_avg"), Slot::zeros("exp_avg_sq")] }
    }

    fn check(&self) -> Result<()> {
        check_betas(self.betas)?;
        check("eps", self.eps, Allowed::AtLeastZero)?;
        check_decay(self.weight_decay)
    }

    fn decays_weights(&self) -> bool {
        self.weight_decay != 0.0
    }

    fn constants(&self, rate: f64, steps: u64) -> OfStep {
        OfStep {
            betas: self.betas,
            decayed: 1.0 - rate * self.weight_decay,
            rate: rate / corrections(self.betas, steps)[0],
            rectification: self.rectification(steps),
            eps: self.eps,
        }
    }

    #[inline(always)]
    fn formula<A: Algebra>(of_step: &OfStep, w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A> {
        let &OfStep { betas, decayed, rate, rectification, eps } = of_step;
        let [m, v] = state else { unreachable!("{SLOTS}") };
        means(betas, d, m, v);
        let step = rate * &*m;
        w * decayed
            - match rectification {
                Some(known) => step * (known / (v.sqrt() + eps)),
                None => step,
            }
    }
}
