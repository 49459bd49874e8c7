//! Adam and AdamW: momentum, divided by the root mean square of the deltas.

use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Result, Slot, Term};

/// Adam.
///
/// The formulas are those of PyTorch's `Adam`: in step `t` of a weight,
/// `m ← beta1 · m + (1 − beta1) · d`, `v ← beta2 · v + (1 − beta2) · d²`, and
/// `w ← w − lr · m̂ / (√v̂ + eps)` with `m̂ = m / (1 − beta1ᵗ)` and `v̂ = v / (1 − beta2ᵗ)`; with
/// [`amsgrad`](Adam::amsgrad), the maximum of `v` over all steps takes its place.
///
/// On a sparse delta, as that of an embedding, it is *lazy*: rows that the delta leaves out, and
/// their `m` and `v`, are not changed, whereas a delta of zero would change them. `t` counts the
/// steps of the whole weight. This is PyTorch's `SparseAdam`, except that `SparseAdam` adds `eps`
/// to `√v` instead of `√v̂`.
///
/// Kingma & Ba, *Adam: a method for stochastic optimization*, 2015; Reddi, Kale & Kumar, *On the
/// convergence of Adam and beyond*, 2018.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Adam;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Adam::new(0.5)).wait()?;
/// assert!((w.value() - 2.5).abs() < 1e-8);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Adam {
    base: Base,
    moments: Moments,
}

/// Adam with a decoupled weight decay, which bypasses the running means: every step first computes
/// `w ← w − lr · weight_decay · w`, then continues as [`Adam`].
///
/// The formulas and the default weight decay, 0.01, are those of PyTorch's `AdamW`. On a sparse
/// delta it is *lazy*: rows that the delta leaves out do not decay.
///
/// Loshchilov & Hutter, *Decoupled weight decay regularization*, 2019.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::{OptimizerExt, AdamW};
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&AdamW::new(0.5).weight_decay(0.1)).wait()?;
/// assert!((w.value() - (3.0 * 0.95 - 0.5)).abs() < 1e-8);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct AdamW {
    base: Base,
    moments: Moments,
    weight_decay: f64,
}

/// The common part of [`Adam`] and [`AdamW`]: running means of the deltas and of their squares.
#[derive(Clone, Debug)]
struct Moments {
    betas: [f64; 2],
    eps: f64,
    amsgrad: bool,
}

optimizer!(Adam);
optimizer!(AdamW);

macro_rules! settings {
    ($Adam:ident) => {
        impl $Adam {
            /// The decay rates of the running means of the deltas and of their squares; 0.9 and
            /// 0.999 by default.
            ///
            /// ```
            #[doc = concat!("let adam = dl_optim::", stringify!($Adam), "::new(0.001).betas(0.9, 0.98);")]
            /// ```
            #[must_use]
            pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
                self.moments.betas = [beta1, beta2];
                self
            }

            /// The number that is added to the square root in the denominator; 1e-8 by default.
            ///
            /// ```
            #[doc = concat!("let adam = dl_optim::", stringify!($Adam), "::new(0.001).eps(1e-6);")]
            /// ```
            #[must_use]
            pub fn eps(mut self, eps: f64) -> Self {
                self.moments.eps = eps;
                self
            }

            /// Divides by the maximum of the running mean of squares over all steps.
            ///
            /// ```
            #[doc = concat!("let adam = dl_optim::", stringify!($Adam), "::new(0.001).amsgrad();")]
            /// ```
            #[must_use]
            pub fn amsgrad(mut self) -> Self {
                self.moments.amsgrad = true;
                self
            }
        }
    };
}

settings!(Adam);
settings!(AdamW);

impl Adam {
    /// Adam with this learning rate or schedule.
    ///
    /// ```
    /// assert_eq!(dl_optim::Adam::new(0.001).learning_rate()?, 0.001);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        Adam { base: Base::new(learning_rate).with_memory(), moments: Moments::new() }
    }
}

impl AdamW {
    /// AdamW with this learning rate or schedule; the weight decay is 0.01.
    ///
    /// ```
    /// assert_eq!(dl_optim::AdamW::new(0.001).learning_rate()?, 0.001);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        AdamW { base: Base::new(learning_rate).with_memory(), moments: Moments::new(), weight_decay: 0.01 }
    }

    /// The decoupled weight decay: a step subtracts `lr · weight_decay · w` from a weight.
    ///
    /// It must be set before the optimizer is wrapped: on `AdamW::new(0.001).clip_norm(1.0)`,
    /// [`weight_decay`](crate::OptimizerExt::weight_decay) is an L2 penalty, and every step with
    /// both is an error.
    ///
    /// ```
    /// let adam = dl_optim::AdamW::new(0.001).weight_decay(0.1);
    /// ```
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }
}

impl Moments {
    fn new() -> Self {
        Moments { betas: [0.9, 0.999], eps: 1e-8, amsgrad: false }
    }

    fn slots(&self) -> &'static [Slot] {
        const ALL: &[Slot] = &[Slot::zeros("exp_avg"), Slot::zeros("exp_avg_sq"), Slot::zeros("max_exp_avg_sq")];
        if self.amsgrad { ALL } else { ALL.split_at(2).0 }
    }

    fn check(&self) -> Result<()> {
        check_betas(self.betas)?;
        check("eps", self.eps, Allowed::AtLeastZero)
    }

    fn constants(&self, rate: f64, steps: u64) -> OfStep {
        let [correction1, correction2] = corrections(self.betas, steps);
        let (rate, root) = (rate / correction1, correction2.sqrt());
        OfStep { betas: self.betas, rate, root, eps: self.eps }
    }
}

/// The constants of a step.
pub(crate) struct OfStep {
    betas: [f64; 2],
    /// Divided by the correction of the first mean.
    rate: f64,
    /// That of the correction of the second mean.
    root: f64,
    eps: f64,
}

impl OfStep {
    #[inline(always)]
    fn formula<A: Algebra>(&self, w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A> {
        let [m, v, greatest @ ..] = state else { unreachable!("{SLOTS}") };
        means(self.betas, d, m, v);
        let square = match greatest {
            [greatest] => {
                *greatest = v.max(greatest);
                greatest
            }
            _ => v,
        };
        w - self.rate * &*m / (square.sqrt() / self.root + self.eps)
    }
}

/// Updates the running means of the deltas and of their squares.
#[inline(always)]
pub(super) fn means<A: Algebra>(betas: [f64; 2], d: &Term<A>, m: &mut Term<A>, v: &mut Term<A>) {
    *m = betas[0] * &*m + (1.0 - betas[0]) * d;
    *v = betas[1] * &*v + (1.0 - betas[1]) * d * d;
}

impl Rule for Adam {
    type Constants = OfStep;

    fn slots(&self) -> &'static [Slot] {
        self.moments.slots()
    }

    fn check(&self) -> Result<()> {
        self.moments.check()
    }

    fn constants(&self, rate: f64, steps: u64) -> OfStep {
        self.moments.constants(rate, steps)
    }

    #[inline(always)]
    fn formula<A: Algebra>(constants: &OfStep, w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A> {
        constants.formula(w, d, state)
    }
}

impl Rule for AdamW {
    /// What is left of a weight that decays, and the constants of Adam.
    type Constants = (f64, OfStep);

    fn slots(&self) -> &'static [Slot] {
        self.moments.slots()
    }

    fn check(&self) -> Result<()> {
        self.moments.check()?;
        check_decay(self.weight_decay)
    }

    fn decays_weights(&self) -> bool {
        self.weight_decay != 0.0
    }

    fn constants(&self, rate: f64, steps: u64) -> Self::Constants {
        (1.0 - rate * self.weight_decay, self.moments.constants(rate, steps))
    }

    #[inline(always)]
    fn formula<A: Algebra>(
        (kept, of_step): &Self::Constants,
        w: &Term<A>,
        d: &Term<A>,
        state: &mut [Term<A>],
    ) -> Term<A> {
        of_step.formula(&(w * *kept), d, state)
    }
}

pub(super) fn check_decay(weight_decay: f64) -> Result<()> {
    check("the weight decay", weight_decay, Allowed::FiniteFromZero)
}

/// An error if a decay rate of a running mean is out of range.
pub(super) fn check_betas(betas: [f64; 2]) -> Result<()> {
    betas.into_iter().try_for_each(|beta| check("a beta", beta, Allowed::BelowOne))
}

/// Bias corrections `1 − betaᵗ`: divisors of the running means, which start at zero.
pub(super) fn corrections(betas: [f64; 2], steps: u64) -> [f64; 2] {
    betas.map(|beta| 1.0 - libm::pow(beta, steps as f64))
}
